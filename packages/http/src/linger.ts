import type { Socket } from 'node:net';

const LINGER_MS = 1_000;

/** Ends a connection with unread input: closed at once, it would be reset, and its last response lost. */
export function linger(socket: Socket): void {
  socket.pause().end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}
