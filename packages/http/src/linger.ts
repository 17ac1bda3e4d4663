import type { Socket } from 'node:net';

const LINGER_MS = 1_000;

/** Ends a connection with unread input. Closing it at once would reset it, and lose the last response. */
export function linger(socket: Socket): void {
  socket.pause().end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}
