import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { boundedServer } from './boundedServer.ts';

type Metrics = { text: string; contentType: string };

type Options = {
  host: string;
  port: number;
  read: () => Promise<Metrics>;
  onError: (error: unknown) => void;
};

const SERVER_OPTIONS = { requestTimeout: 10_000, connectionsCheckingInterval: 1_000 };
const MAX_CONNECTIONS = 40;

/**
 * Serves `GET /metrics` on a port of its own. Requests that come while the metrics are read share them. A
 * connection too many closes another one, so that none keeps Prometheus out. @throws Error for the operator
 */
export async function serveMetrics({ host, port, read, onError }: Options) {
  /** First the connections that were answered longest ago. */
  const open = new Set<Socket>();
  /** Those for which metrics are being read. */
  const reading = new Set<Socket>();
  let metrics: Promise<Metrics | undefined> | undefined;

  const respond = async (url: string, method: string, response: ServerResponse): Promise<void> => {
    if (url.replace(/\?.*$/s, '') !== '/metrics') return end(response, 404, 'Not found; see /metrics.');
    if (method !== 'GET' && method !== 'HEAD') return end(response.setHeader('allow', 'GET, HEAD'), 405, '');
    metrics ??= read()
      .catch((error) => void onError(error))
      .finally(() => {
        metrics = undefined;
      });
    const shared = await metrics;
    if (!shared) return end(response, 500, 'Internal server error.');
    response.setHeader('content-type', shared.contentType).end(shared.text);
  };
  const server = boundedServer(
    SERVER_OPTIONS,
    ({ socket, url = '', method = '' }, response) => {
      reading.add(socket);
      response.once('finish', () => open.delete(socket) && open.add(socket));
      response.setHeader('cache-control', 'no-store');
      void respond(url, method, response).then(() => reading.delete(socket));
    },
    () => {},
  );
  server.on('connection', (socket) => {
    if (open.size >= MAX_CONNECTIONS) {
      const first = open.values().find((one) => !reading.has(one)) ?? ([...open][0] as Socket);
      open.delete(first);
      first.destroy();
    }
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      reading.delete(socket);
    });
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
