import type { Socket } from 'node:net';

const MAX_CONNECTIONS = 40;

/** The open connections, first those that were answered longest ago. A new one may close one of them. */
export class FewConnections {
  readonly #open = new Set<Socket>();
  /** Those for which metrics are being read. */
  readonly #busy = new Set<Socket>();

  add(socket: Socket): void {
    if (this.#open.size >= MAX_CONNECTIONS) {
      const oldest = this.#open.values().find((one) => !this.#busy.has(one)) ?? first(this.#open);
      this.#open.delete(oldest);
      oldest.destroy();
    }
    this.#open.add(socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      this.#busy.delete(socket);
    });
  }

  busy(socket: Socket): void {
    this.#busy.add(socket);
  }

  /** The response is written; its client may still not read it. */
  idle(socket: Socket): void {
    this.#busy.delete(socket);
  }

  answered(socket: Socket): void {
    if (this.#open.delete(socket)) this.#open.add(socket);
  }
}

function first(sockets: ReadonlySet<Socket>): Socket {
  const [socket] = sockets;
  return socket as Socket;
}
