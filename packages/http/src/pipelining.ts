import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { hasBody } from './body.ts';
import { linger } from './linger.ts';

export type Handle = (request: IncomingMessage, response: ServerResponse) => void;

/** Of the requests that wait on a connection, as estimated: at most 15, about 10 with a few fields. */
const MAX_WAITING_BYTES = 32 * 2 ** 10;
const REQUEST_BYTES = 2 * 2 ** 10;
const STRING_BYTES = 32;

/** What Node's parser calls when it has the head of a request. */
type OnIncoming = (request: IncomingMessage, keepAlive: boolean) => number;
/** It skips a body, and stops behind the request, as for an upgrade. What was read with it is dropped. */
const STOP = 2;

type Parser = { onIncoming?: OnIncoming; incoming?: IncomingMessage | null };
type ServerSocket = Socket & { parser?: Parser; _httpMessage?: ServerResponse | null };

/**
 * Handles the requests of a connection one at a time. HTTP/1.1 answers in order, so a request that is pipelined behind
 * another one waits, before any work is done for it, until the kernel has the response before it, and then for a turn
 * of the event loop. If too many wait, the parser stops, and the connection is closed after the last of them: the
 * client repeats what was not answered (RFC 9112 section 9.3.2).
 */
export function handleInOrder(server: Server, handle: Handle, onClose: () => void): void {
  const pipelines = new WeakMap<Socket, Pipeline>();
  server.on('connection', (socket) => pipelines.set(socket, new Pipeline(socket, handle, onClose)));
  server.on('request', (request, response) => {
    if (response.socket) handle(request, response);
    else pipelines.get(request.socket)?.add(request, response);
  });
}

class Pipeline {
  readonly #socket: ServerSocket;
  readonly #handle: Handle;
  readonly #onClose: () => void;
  #bytes = 0;
  #last: ServerResponse | undefined;
  #isPaused = false;
  #isClosing = false;

  constructor(socket: ServerSocket, handle: Handle, onClose: () => void) {
    this.#socket = socket;
    this.#handle = handle;
    this.#onClose = onClose;
    const { parser } = socket;
    const onIncoming = parser?.onIncoming;
    if (!onIncoming) return; // a test notices if another version of Node does without it
    parser.onIncoming = (request, keepAlive) => {
      if (this.#accepts(request)) return onIncoming(request, keepAlive);
      parser.incoming = null; // neither kept, nor an upgrade for Node
      return STOP;
    };
  }

  add(request: IncomingMessage, response: ServerResponse): void {
    const bytes = bytesOf(request);
    this.#bytes += bytes;
    this.#last = response;
    if (hasBody(request)) this.#pause(); // more of it would be kept
    response.once('socket', () =>
      setImmediate(() => {
        this.#bytes -= bytes;
        if (this.#last === response) this.#onLast();
        if (!this.#socket.destroyed) this.#handle(request, response);
      }),
    );
  }

  #accepts(request: IncomingMessage): boolean {
    const socket = this.#socket;
    if (this.#isClosing || socket.destroyed) return false;
    const current = socket._httpMessage;
    if (!current || this.#bytes + bytesOf(request) <= MAX_WAITING_BYTES) return true;
    this.#isClosing = true;
    this.#pause();
    this.#onClose();
    closeAfter(this.#last ?? current, socket);
    return false;
  }

  #onLast(): void {
    this.#last = undefined;
    if (!this.#isPaused || this.#isClosing) return;
    this.#isPaused = false;
    this.#socket.off('resume', pauseAgain).resume();
  }

  #pause(): void {
    if (this.#isPaused) return; // again, it would not be paused after a `resume` that Node has called
    this.#isPaused = true;
    this.#socket.on('resume', pauseAgain).pause();
  }
}

/** Node itself resumes a connection when a body is read. */
function pauseAgain(this: Socket): void {
  this.pause();
}

/** Node closes a connection with `destroySoon`, after a response with `Connection: close`. */
function closeAfter(response: ServerResponse, socket: Socket): void {
  socket.destroySoon = () => linger(socket);
  response.shouldKeepAlive = false;
  response.once('finish', () => linger(socket)); // its head may have been sent before
}

function bytesOf({ url = '', rawHeaders }: IncomingMessage): number {
  let bytes = REQUEST_BYTES + url.length + STRING_BYTES * rawHeaders.length;
  for (const text of rawHeaders) bytes += text.length;
  return bytes;
}
