import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { hasBody, MAX_BODY_BYTES, RequestWithBody } from './body.ts';

/** Of the requests of a connection that have no complete response, as estimated; a first request may have more. */
export const MAX_PIPELINED_BYTES = 64 * 2 ** 10;
const REQUEST_BYTES = 4 * 2 ** 10;
const FIELD_BYTES = 128;
/** Of responses, or pieces of them, that the kernel does not take yet, since their clients do not read. */
export const MAX_UNREAD_BYTES = 64 * 2 ** 20;
const CHECK_INTERVAL_MS = 1_000;

type Handle = (request: IncomingMessage, response: ServerResponse) => void;
/**
 * Gets how many connections were closed in the last second, because they had too much waiting or unread, or since there
 * were too many of them.
 */
type OnClosed = (closed: { waiting: number; unread: number; refused: number }) => void;
type Options = ServerOptions & { maxConnections?: number | undefined };

/** The responses of a connection, in order; the last request was answered before all of it had arrived. */
type Pipeline = { responses: ServerResponse<RequestWithBody>[]; isInputLeft: boolean };
const pipelines = new WeakMap<Socket, Pipeline>();

/** The response that a connection waits for first. */
export const currentResponse = (socket: Socket): ServerResponse | undefined =>
  pipelines.get(socket)?.responses.find(({ closed }) => !closed);

/** Whether what arrives on a connection belongs to a request that was answered. */
export const isInputLeft = (socket: Socket): boolean => pipelines.get(socket)?.isInputLeft === true;

/**
 * An HTTP server whose memory for what its clients pipeline, and do not read, is bounded. It handles the requests of a
 * connection one at a time, each after the kernel has the response before it. A connection with too much waiting is
 * reset, and of those with too much unread, the ones that have most.
 */
export function boundedServer(
  { maxConnections, ...options }: Options,
  handle: Handle,
  onClosed: OnClosed,
): Server {
  const sockets = new Set<Socket>();
  /** A pipeline has one request per turn of the event loop, so that it does not occupy it. */
  let closedInTurn: ServerResponse[] = [];
  let closed = { waiting: 0, unread: 0, refused: 0 };

  function accepts(request: RequestWithBody, { responses }: Pipeline): boolean {
    const { socket } = request;
    if (socket.destroyed) return false;
    let bytes = 0;
    for (const response of responses) if (!response.closed) bytes += bytesOf(response.req);
    if (bytes === 0 || bytes + bytesOf(request) <= MAX_PIPELINED_BYTES) return true;
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
  server.once('listening', () => {
    const timer = setInterval(() => {
      for (const socket of tooMuchUnread(sockets)) {
        closed.unread++;
        socket.destroy();
      }
      if (closed.waiting + closed.unread + closed.refused > 0) onClosed(closed);
      closed = { waiting: 0, unread: 0, refused: 0 };
    }, CHECK_INTERVAL_MS);
    timer.unref();
    server.once('close', () => clearInterval(timer));
  });
  return server;
}

/** What a request that waits takes of the memory, as estimated. A body of unknown length counts as far as it has arrived. */
function bytesOf(request: RequestWithBody): number {
  const { url = '', rawHeaders, headers } = request;
  let bytes = REQUEST_BYTES + url.length + (FIELD_BYTES * rawHeaders.length) / 2;
  for (const text of rawHeaders) bytes += text.length;
  return bytes + Math.min(Number(headers['content-length'] ?? request.gathered), MAX_BODY_BYTES);
}

/** Those that have most unread, the newest first, until the others are within the bound. */
export function* tooMuchUnread(sockets: Set<Socket>, maxBytes = MAX_UNREAD_BYTES): Generator<Socket> {
  let total = 0;
  for (const socket of sockets) {
    // A listener to 'close' of each connection would keep most requests until a full garbage collection.
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

/** What Node's parser calls when it has the head of a request. */
type OnIncoming = (request: RequestWithBody, keepAlive: boolean) => number;
/** It skips a body, and stops behind the request, as for an upgrade. What was read with it is dropped. */
const STOP = 2;

/**
 * Stops the parser of a connection at such a request. Node itself parses all requests that one read has, 64 KiB of each
 * connection, also of a closed one: of a thousand connections, gigabytes. This is the only use of what is not public; a
 * test notices if another version of Node does without it.
 */
function stopParser(socket: Socket, at: (request: RequestWithBody) => boolean): void {
  const { parser } = socket as { parser?: { onIncoming?: OnIncoming; incoming?: RequestWithBody | null } };
  const onIncoming = parser?.onIncoming;
  if (!onIncoming) return;
  parser.onIncoming = (request, keepAlive) => {
    if (!at(request)) return onIncoming(request, keepAlive);
    parser.incoming = null; // neither kept, nor an upgrade for Node
    return STOP;
  };
}
