import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { boundedServer } from './boundedServer.ts';
import { RESPONSE_HEADERS } from './responseHeaders.ts';

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
 * Serves `GET /metrics` on its own port, one request per connection. Concurrent requests share one reading. A
 * connection above the limit closes the oldest one, so that idle connections cannot block Prometheus. @throws Error if
 * it cannot listen
 */
export async function serveMetrics({ host, port, read, onError }: Options) {
  let metrics: Promise<Metrics | undefined> | undefined;

  const respond = async (url: string, method: string, response: ServerResponse): Promise<void> => {
    response.setHeaders(new Map(Object.entries(RESPONSE_HEADERS))).setHeader('connection', 'close');
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
    ({ url = '', method = '' }, response) => void respond(url, method, response),
    () => {},
  );
  server.on('clientError', (_error, socket) => socket.destroy());
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (open.size > MAX_CONNECTIONS && oldest) {
      open.delete(oldest);
      oldest.destroy();
    }
  });
  server.listen(port, host);
  await once(server, 'listening');
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
