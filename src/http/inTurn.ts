import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export type Handle = (request: IncomingMessage, response: ServerResponse) => void;

/** Of all requests that wait, as estimated: about 4 000 requests. What waits long is garbage that V8 collects late. */
const MAX_WAITING_BYTES = 8 * 2 ** 20;
const REQUEST_BYTES = 2 * 2 ** 10;
const HEADER_TEXT_BYTES = 64;

/** The requests that wait on a connection. */
type Waiting = { requests: number; bytes: number };

/**
 * Handles the requests of a connection one at a time. HTTP/1.1 answers in order, so a request that is pipelined behind
 * another one waits, before any work is done for it, until the kernel has the response before it. Meanwhile nothing is
 * read from the connection; but one read of 64 KiB may have had 1 900 requests. If too many wait in all, the connections
 * with most of them are closed.
 */
export function inTurn(handle: Handle, onClose: () => void, maxBytes = MAX_WAITING_BYTES): Handle {
  const connections = new Map<Socket, Waiting>();
  let total = 0;

  function onWait(socket: Socket): Waiting {
    const waiting = { requests: 0, bytes: 0 };
    connections.set(socket, waiting);
    socket.pause().on('resume', pauseAgain).once('close', onSocketClose);
    return waiting;
  }

  function onSocketClose(this: Socket): void {
    total -= connections.get(this)?.bytes ?? 0;
    connections.delete(this);
  }

  function onTurn(socket: Socket, bytes: number): void {
    const waiting = connections.get(socket);
    if (!waiting) return;
    total -= bytes;
    waiting.bytes -= bytes;
    if (--waiting.requests > 0) return;
    connections.delete(socket);
    socket.off('close', onSocketClose).off('resume', pauseAgain).resume();
  }

  function closeLargest(): void {
    let largest: [Socket, Waiting] | undefined;
    for (const one of connections) if (!largest || one[1].bytes > largest[1].bytes) largest = one;
    if (!largest) return;
    const [socket] = largest;
    onSocketClose.call(socket);
    socket.destroy();
    onClose();
  }

  return (request, response) => {
    const { socket } = request;
    if (response.socket) return handle(request, response);
    if (socket.destroyed) return; // the rest of what was read with those that waited
    const bytes = REQUEST_BYTES + HEADER_TEXT_BYTES * request.rawHeaders.length;
    const waiting = connections.get(socket) ?? onWait(socket);
    waiting.requests++;
    waiting.bytes += bytes;
    total += bytes;
    // In a turn of the event loop, so that other connections have theirs between.
    response.once('socket', () =>
      setImmediate(() => {
        onTurn(socket, bytes);
        if (!socket.destroyed) handle(request, response);
      }),
    );
    while (total > maxBytes) closeLargest();
  };
}

/** Node itself resumes a connection when a body is read. */
function pauseAgain(this: Socket): void {
  this.pause();
}
