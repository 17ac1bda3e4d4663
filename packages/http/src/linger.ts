import type { Socket } from 'node:net';

const LINGER_MS = 1_000;

/**
 * Ends a connection from which there is more to read. Closed at once, it would be reset, and the client might not get
 * the last response; never closed, it would keep its descriptor as long as the client likes.
 */
export function linger(socket: Socket): void {
  socket.pause().end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}
