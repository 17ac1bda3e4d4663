import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { listenOn } from '@event-sourced/node/testing';

/**
 * A TCP port that can freeze like a stopped process, and break its connections like a killed process. A connection that
 * an HTTP/2 session owns can do neither, so this port forwards the bytes.
 */
export class EventStoreDbPort {
  /** The number of accepted connections. */
  connections = 0;
  readonly #server = createServer((socket) => this.#accept(socket));
  /** The stream to which each connection is forwarded. */
  readonly #connections = new Map<Socket, Duplex>();
  readonly #serve: (connection: Duplex) => void;
  #frozen = false;

  constructor(serve: (connection: Duplex) => void) {
    this.#serve = serve;
  }

  /** Listens on a port, or on a free port if it is 0; returns the port. */
  listen(port: number): Promise<number> {
    return listenOn(this.#server, port);
  }

  /** Rejects new connections and breaks the open ones. */
  async close(): Promise<void> {
    this.#frozen = false;
    if (!this.#server.listening) return;
    this.#server.close();
    this.breakConnections();
    await once(this.#server, 'close');
  }

  /**
   * Breaks every connection. Not with `resetAndDestroy`: if a client closes too, Node 26 may then never exit.
   */
  breakConnections(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
  }

  freeze(): void {
    if (this.#frozen) return;
    this.#frozen = true;
    for (const [socket, near] of this.#connections) {
      socket.unpipe(near);
      near.unpipe(socket);
      socket.pause();
    }
  }

  thaw(): void {
    if (!this.#frozen) return;
    this.#frozen = false;
    for (const [socket, near] of this.#connections) socket.pipe(near).pipe(socket);
  }

  #accept(socket: Socket): void {
    this.connections++;
    const [near, far] = duplexPair();
    this.#connections.set(socket, near);
    socket.setNoDelay(true);
    for (const end of [socket, near, far]) end.on('error', () => {});
    socket.on('close', () => {
      this.#connections.delete(socket);
      near.destroy();
      far.destroy();
    });
    if (!this.#frozen) socket.pipe(near).pipe(socket);
    this.#serve(far);
  }
}
