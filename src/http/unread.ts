import type { Socket } from 'node:net';

/** Of responses, or pieces of them, that the kernel does not take yet, since their clients do not read. */
const MAX_UNREAD_BYTES = 64 * 2 ** 20;
/** Connections are looked at after so many requests, or a quarter of their number. */
const MIN_REQUESTS = 64;

/**
 * Bounds the bytes that are queued for the clients of all connections. If there are too many, connections are
 * closed, first those that have not read anything for longest.
 */
export class Unread {
  readonly #sockets = new Set<Socket>();
  /** How much each connection with unread bytes has read, as seen last; first those that read it longest ago. */
  readonly #read = new Map<Socket, number>();
  #requests = 0;
  readonly #maxBytes: number;
  readonly #onClose: () => void;

  constructor(onClose: () => void, maxBytes = MAX_UNREAD_BYTES) {
    this.#onClose = onClose;
    this.#maxBytes = maxBytes;
  }

  add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#read.delete(socket);
    });
  }

  /** A request is handled, whose response may be unread. */
  onRequest(): void {
    if (++this.#requests >= Math.max(MIN_REQUESTS, this.#sockets.size / 4)) this.check();
  }

  check(): void {
    this.#requests = 0;
    let total = 0;
    for (const socket of this.#sockets) total += this.#unreadOf(socket);
    for (const socket of this.#read.keys()) {
      if (total <= this.#maxBytes) return;
      total -= socket.writableLength;
      this.#read.delete(socket);
      socket.destroy();
      this.#onClose();
    }
  }

  #unreadOf(socket: Socket): number {
    const unread = socket.writableLength;
    if (unread === 0) {
      this.#read.delete(socket);
      return 0;
    }
    const read = socket.bytesWritten - unread;
    if (this.#read.get(socket) !== read) {
      this.#read.delete(socket);
      this.#read.set(socket, read);
    }
    return unread;
  }
}
