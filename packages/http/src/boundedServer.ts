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
const MAX_PIPELINED_BYTES = 64 * 2 ** 10;
const REQUEST_BYTES = 4 * 2 ** 10;
const FIELD_BYTES = 128;
/** Of responses, or pieces of them, that the kernel does not take yet, since their clients do not read. */
const MAX_UNREAD_BYTES = 64 * 2 ** 20;
const CHECK_INTERVAL_MS = 1_000;

type Handle = (request: IncomingMessage, response: ServerResponse) => void;
/**
 * Gets how many connections were closed in the last second, because they had too much waiting or unread, or since there
 * were too many of them.
 */
type OnClosed = (closed: { waiting: number; unread: number; refused: number }) => void;
type Options = ServerOptions & { maxConnections?: number | undefined };

/** The responses of a connection, in order, and the estimated bytes of the requests of those that are not closed. */
type Pipeline = { responses: ServerResponse[]; bytes: number };
const pipelines = new WeakMap<Socket, Pipeline>();

/** The response that a connection waits for first. */
export const currentResponse = (socket: Socket): ServerResponse | undefined =>
  pipelines.get(socket)?.responses.find(({ closed }) => !closed);

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

  function accepts(request: IncomingMessage, { bytes }: Pipeline): boolean {
    const { socket } = request;
    if (socket.destroyed) return false;
    if (bytes === 0 || bytes + bytesOf(request) <= MAX_PIPELINED_BYTES) return true;
    closed.waiting++;
    socket.destroy();
    return false;
  }

  function onClose(this: ServerResponse): void {
    (pipelines.get(this.req.socket) as Pipeline).bytes -= bytesOf(this.req);
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
    pipeline.bytes += bytesOf(request);
    response.once('close', onClose);
    if (hasBody(request)) request.gather();
    if (pipeline.responses.push(response) === 1) handle(request, response);
  });
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  server.on('drop', () => closed.refused++);
  server.on('connection', (socket) => {
    const pipeline: Pipeline = { responses: [], bytes: 0 };
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

function bytesOf(request: IncomingMessage): number {
  const body = hasBody(request) ? Number(request.headers['content-length'] ?? MAX_BODY_BYTES) : 0;
  return REQUEST_BYTES + (FIELD_BYTES * request.rawHeaders.length) / 2 + Math.min(body, MAX_BODY_BYTES);
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
type OnIncoming = (request: IncomingMessage, keepAlive: boolean) => number;
/** It skips a body, and stops behind the request, as for an upgrade. What was read with it is dropped. */
const STOP = 2;

/**
 * Stops the parser of a connection at such a request. Node itself parses all requests that one read has, 64 KiB of each
 * connection, also of a closed one: of a thousand connections, gigabytes. This is the only use of what is not public; a
 * test notices if another version of Node does without it.
 */
function stopParser(socket: Socket, at: (request: IncomingMessage) => boolean): void {
  const { parser } = socket as { parser?: { onIncoming?: OnIncoming; incoming?: IncomingMessage | null } };
  const onIncoming = parser?.onIncoming;
  if (!onIncoming) return;
  parser.onIncoming = (request, keepAlive) => {
    if (!at(request)) return onIncoming(request, keepAlive);
    parser.incoming = null; // neither kept, nor an upgrade for Node
    return STOP;
  };
}
