import type { Socket } from 'node:net';

/** Of responses, or pieces of them, that the kernel does not take yet, since their clients do not read. */
const MAX_UNREAD_BYTES = 64 * 2 ** 20;
/** Requests after which connections are checked; of many connections, a quarter of their count. */
const MIN_REQUESTS = 64;

/** Of libuv; a socket counts a piece of a response as unread until all of it was read. */
type Handle = { bytesWritten: number; writeQueueSize: number };

/** A connection with unread bytes: what it had read, and in which second, when they were seen first. */
type Reader = { before: number; since: number };

/**
 * Bounds the bytes that are queued for the clients of all connections. If there are too many, connections are closed:
 * first those that have read least since their bytes were first found unread. Of those that have read nothing, first
 * those that had time to, and then the newest, so that a client gains nothing by opening connections again.
 */
export class UnreadResponses {
  readonly #sockets = new Set<Socket>();
  /** First the one that was seen first. */
  readonly #readers = new Map<Socket, Reader>();
  #requests = 0;
  #second = 0;
  readonly #maxBytes: number;
  readonly #onClose: () => void;

  constructor(onClose: () => void, maxBytes = MAX_UNREAD_BYTES) {
    this.#onClose = onClose;
    this.#maxBytes = maxBytes;
  }

  add(socket: Socket): void {
    this.#sockets.add(socket);
  }

  /** A request is handled, whose response may be unread. */
  onRequest(): void {
    if (++this.#requests >= Math.max(MIN_REQUESTS, this.#sockets.size / 4)) this.#check();
  }

  onSecond(): void {
    this.#second++;
    this.#check();
  }

  #check(): void {
    this.#requests = 0;
    let total = 0;
    for (const socket of this.#sockets) total += this.#unreadOf(socket);
    if (total <= this.#maxBytes) return;
    for (const socket of this.#inOrder()) {
      if (total <= this.#maxBytes) return;
      total -= socket.writableLength;
      this.#readers.delete(socket);
      socket.destroy();
      this.#onClose();
    }
  }

  #unreadOf(socket: Socket): number {
    // A listener to 'close' of each connection would keep most requests until a full garbage collection.
    if (socket.destroyed) this.#sockets.delete(socket);
    const unread = socket.destroyed ? 0 : socket.writableLength;
    if (unread === 0) this.#readers.delete(socket);
    else if (!this.#readers.has(socket))
      this.#readers.set(socket, { before: readBytes(socket), since: this.#second });
    return unread;
  }

  #inOrder(): Socket[] {
    return [...this.#readers]
      .map(([socket, { before, since }]) => ({
        socket,
        read: readBytes(socket) - before,
        isNew: Number(this.#second - since < 2),
      }))
      .reverse()
      .sort((a, b) => a.read - b.read || a.isNew - b.isNew)
      .map(({ socket }) => socket);
  }
}

/** What the kernel has taken for a client. */
function readBytes(socket: Socket & { _handle?: Handle | null }): number {
  const { _handle: handle } = socket;
  return handle ? handle.bytesWritten - handle.writeQueueSize : socket.bytesWritten - socket.writableLength;
}
