import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { hasBody, MAX_BODY_BYTES, RequestWithBody } from './body.ts';

/** The estimated size of a connection's requests without a complete response. A single request may be larger. */
export const MAX_PIPELINED_BYTES = 64 * 2 ** 10;
const REQUEST_BYTES = 4 * 2 ** 10;
const FIELD_BYTES = 128;
/** The size of all responses that the kernel does not accept yet, because clients do not read. */
export const MAX_UNREAD_BYTES = 64 * 2 ** 20;
const CHECK_INTERVAL_MS = 1_000;

type Handle = (request: IncomingMessage, response: ServerResponse) => void;
/**
 * Gets the numbers of connections that were closed in the last second: with too many waiting requests, with too much
 * unread output, or above the maximum number of connections.
 */
type OnClosed = (closed: { waiting: number; unread: number; refused: number }) => void;
type Options = ServerOptions & {
  maxConnections?: number | undefined;
  /** When the server closes, idle connections stay open for this time: a client may be sending its next request. */
  closeIdleAfterMs?: number | undefined;
};

/** The responses of a connection, in order. `isInputLeft`: the last one was sent before its request was complete. */
type Pipeline = { responses: ServerResponse<RequestWithBody>[]; isInputLeft: boolean };
const pipelines = new WeakMap<Socket, Pipeline>();

/** The first response for which a connection waits. */
export const currentResponse = (socket: Socket): ServerResponse | undefined =>
  pipelines.get(socket)?.responses.find(({ closed }) => !closed);

/** Whether further input on a connection belongs to a request that already has a response. */
export const isInputLeft = (socket: Socket): boolean => pipelines.get(socket)?.isInputLeft === true;

/**
 * An HTTP server with bounded memory for pipelined requests and unread responses. It handles the requests of a
 * connection one at a time, each after the kernel has accepted the previous response. It resets a connection with too
 * many waiting requests; if too much output is unread, it resets the connections with the most.
 */
export function boundedServer(
  { maxConnections, closeIdleAfterMs = 0, ...options }: Options,
  handle: Handle,
  onClosed: OnClosed,
): Server {
  const sockets = new Set<Socket>();
  /** A pipeline handles one request per turn of the event loop, to leave turns to other connections. */
  let closedInTurn: ServerResponse[] = [];
  let closed = { waiting: 0, unread: 0, refused: 0 };

  function accepts(request: RequestWithBody, { responses }: Pipeline): boolean {
    const { socket } = request;
    if (socket.destroyed) return false;
    let bytes = 0;
    for (const response of responses) if (!response.closed) bytes += estimateBytes(response.req);
    if (bytes === 0 || bytes + estimateBytes(request) <= MAX_PIPELINED_BYTES) return true;
    closed.waiting++;
    socket.destroy();
    return false;
  }

  function onClose(this: ServerResponse): void {
    const { req } = this;
    if (!req.complete) {
      const pipeline = pipelines.get(req.socket) as Pipeline;
      pipeline.isInputLeft = true;
      req.once('end', () => {
        pipeline.isInputLeft = false;
      });
    }
    if (closedInTurn.push(this) === 1) setImmediate(handleNext);
  }

  function handleNext(): void {
    const responses = closedInTurn;
    closedInTurn = [];
    for (const { req } of responses) {
      const pipeline = pipelines.get(req.socket) as Pipeline;
      pipeline.responses.shift();
      const [next] = pipeline.responses;
      if (next && !req.socket.destroyed) handle(next.req, next);
    }
  }

  const server = createServer({ ...options, IncomingMessage: RequestWithBody }, (request, response) => {
    const pipeline = pipelines.get(request.socket) as Pipeline;
    if (!accepts(request, pipeline)) return;
    response.on('close', onClose);
    if (hasBody(request)) request.gather();
    if (pipeline.responses.push(response) === 1) handle(request, response);
  });
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  server.on('drop', () => closed.refused++);
  server.on('connection', (socket) => {
    const pipeline: Pipeline = { responses: [], isInputLeft: false };
    pipelines.set(socket, pipeline);
    sockets.add(socket);
    stopParser(socket, (request) => !accepts(request, pipeline));
  });
  // `close` calls it at once. Repeated, since a long response leaves its connection idle when it ends.
  const closeIdle = server.closeIdleConnections.bind(server);
  let closing: NodeJS.Timeout | undefined;
  server.closeIdleConnections = () => {
    // A turn later, requests that have arrived are read, also after a pause of the process.
    closing ??= setInterval(() => setImmediate(closeIdle), closeIdleAfterMs);
  };
  server.once('close', () => clearInterval(closing));
  // A reset, so that no client takes a part of a response for the whole.
  server.closeAllConnections = () => {
    for (const socket of sockets)
      if (currentResponse(socket)) socket.resetAndDestroy();
      else socket.destroy();
  };
  server.once('listening', () => {
    const timer = setInterval(() => {
      for (const socket of tooMuchUnread(sockets)) {
        closed.unread++;
        socket.resetAndDestroy();
      }
      if (closed.waiting + closed.unread + closed.refused > 0) onClosed(closed);
      closed = { waiting: 0, unread: 0, refused: 0 };
    }, CHECK_INTERVAL_MS);
    timer.unref();
    server.once('close', () => clearInterval(timer));
  });
  return server;
}

/** Estimates the memory of a waiting request. A body of unknown length counts with the bytes that have arrived. */
function estimateBytes(request: RequestWithBody): number {
  const { url = '', rawHeaders, headers } = request;
  let bytes = REQUEST_BYTES + url.length + (FIELD_BYTES * rawHeaders.length) / 2;
  for (const text of rawHeaders) bytes += text.length;
  return bytes + Math.min(Number(headers['content-length'] ?? request.gathered), MAX_BODY_BYTES);
}

/** The connections with the most unread output, newest first, until the rest is within the bound. */
export function* tooMuchUnread(sockets: Set<Socket>, maxBytes = MAX_UNREAD_BYTES): Generator<Socket> {
  let total = 0;
  for (const socket of sockets) {
    // With a 'close' listener on each connection, V8 would keep most requests until a full garbage collection.
    if (socket.destroyed) sockets.delete(socket);
    else total += socket.writableLength;
  }
  if (total <= maxBytes) return;
  for (const socket of [...sockets].reverse().sort((a, b) => b.writableLength - a.writableLength)) {
    if (total <= maxBytes) return;
    total -= socket.writableLength;
    yield socket;
  }
}

/** The callback of Node's parser for the head of a request. */
type OnIncoming = (request: RequestWithBody, keepAlive: boolean) => number;
/** Makes the parser skip the body and stop after the request, as for an upgrade. The rest of the input is dropped. */
const STOP = 2;

/**
 * Stops the parser of a connection at a request for which `at` is true. Node itself parses all requests of a read of 64
 * KiB, even of a closed connection: gigabytes for a thousand connections. This is the only use of a private interface
 * of Node; a test fails if a version of Node does not have it.
 */
function stopParser(socket: Socket, at: (request: RequestWithBody) => boolean): void {
  const { parser } = socket as { parser?: { onIncoming?: OnIncoming; incoming?: RequestWithBody | null } };
  const onIncoming = parser?.onIncoming;
  if (!onIncoming) return;
  parser.onIncoming = (request, keepAlive) => {
    if (!at(request)) return onIncoming(request, keepAlive);
    parser.incoming = null; // so that Node neither keeps the request nor treats it as an upgrade
    return STOP;
  };
}
