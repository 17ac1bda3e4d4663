import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';

type Connection = { socket: Socket; near: Duplex };

/**
 * A TCP port for gRPC and HTTP/1 that can freeze like a stopped process, and can break its connections like a
 * killed one. Neither is possible on a connection that an HTTP/2 session owns, so the bytes are forwarded
 * here.
 */
export class EventStoreDbPort {
  /** The number of connections that were accepted. */
  connections = 0;
  readonly #server = createServer((socket) => this.#accept(socket));
  readonly #sockets = new Set<Socket>();
  readonly #connections = new Set<Connection>();
  readonly #grpc: (connection: Duplex) => void;
  readonly #http: (connection: Duplex) => void;
  #frozen = false;

  constructor(grpc: (connection: Duplex) => void, http: (connection: Duplex) => void) {
    this.#grpc = grpc;
    this.#http = http;
  }

  /** Listens, on a free port if it is 0; returns the port. */
  async listen(port: number, host: string): Promise<number> {
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    return (this.#server.address() as { port: number }).port;
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
    for (const socket of this.#sockets) socket.destroy();
  }

  freeze(): void {
    if (this.#frozen) return;
    this.#frozen = true;
    for (const { socket, near } of this.#connections) {
      socket.unpipe(near);
      near.unpipe(socket);
    }
    for (const socket of this.#sockets) socket.pause();
  }

  thaw(): void {
    if (!this.#frozen) return;
    this.#frozen = false;
    for (const { socket, near } of this.#connections) socket.pipe(near).pipe(socket);
    for (const socket of this.#sockets) socket.resume();
  }

  #accept(socket: Socket): void {
    this.connections++;
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    socket.once('data', (first: Buffer) => this.#connect(socket, first));
    if (this.#frozen) socket.pause();
  }

  #connect(socket: Socket, first: Buffer): void {
    const [near, far] = duplexPair();
    const connection = { socket, near };
    this.#connections.add(connection);
    near.on('error', () => {});
    far.on('error', () => {});
    socket.on('close', () => {
      this.#connections.delete(connection);
      near.destroy();
      far.destroy();
    });
    near.write(first);
    socket.pipe(near).pipe(socket);
    if (/^(GET|HEAD) /.test(first.toString('latin1', 0, 5))) this.#http(far);
    else this.#grpc(far);
  }
}
