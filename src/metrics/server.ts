import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

type Options = {
  host: string;
  port: number;
  /** The metrics, when they are asked for. */
  read: () => Promise<{ text: string; contentType: string }>;
  /** Gets why they could not be read. */
  onError: (error: unknown) => void;
};

const REQUEST_TIMEOUT_MS = 10_000;
const MAX_CONNECTIONS = 40;
const MAX_WITHOUT_REQUEST = 20;

/**
 * Serves `GET /metrics`, and nothing else, on a port of its own. Returns its URL. Of too many connections
 * without a request, the one that has been so for longest is closed, so that they do not keep Prometheus out.
 * @throws Error with a message for the operator
 */
export async function serveMetrics({ host, port, read, onError }: Options) {
  const respond = async ({ method, url = '' }: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (url.replace(/\?.*$/s, '') !== '/metrics') return end(response, 404, 'Not found; see /metrics.');
    if (method !== 'GET' && method !== 'HEAD') return end(response.setHeader('allow', 'GET, HEAD'), 405, '');
    try {
      const { text, contentType } = await read();
      response.setHeader('content-type', contentType).end(text);
    } catch (error) {
      onError(error);
      end(response, 500, 'Internal server error.');
    }
  };
  /** Connections without a request, in the order in which they became so. */
  const idle = new Set<Socket>();
  /** Requests without a complete response, by connection: they may be pipelined. */
  const open = new WeakMap<Socket, number>();
  const count = (socket: Socket, change: 1 | -1): void => {
    const requests = (open.get(socket) ?? 0) + change;
    open.set(socket, requests);
    idle.delete(socket);
    if (requests === 0 && !socket.destroyed) idle.add(socket);
  };
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    const { socket } = request;
    count(socket, 1);
    response.once('close', () => count(socket, -1));
    response.setHeader('cache-control', 'no-store');
    void respond(request, response);
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.on('connection', (socket) => {
    const [oldest] = idle;
    if (oldest && idle.size >= MAX_WITHOUT_REQUEST) {
      idle.delete(oldest);
      oldest.destroy();
    }
    idle.add(socket);
    socket.once('close', () => idle.delete(socket));
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error) => {
    throw new Error(`cannot serve metrics: ${error.message}`, { cause: error });
  });
  const { address, family, port: actual } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${actual}/metrics`,
    async close(): Promise<void> {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function end(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
}
