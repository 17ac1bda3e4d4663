import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { boundedServer } from './boundedServer.ts';
import { FewConnections } from './fewConnections.ts';

type Metrics = { text: string; contentType: string };

type Options = {
  host: string;
  port: number;
  /** The metrics, when they are asked for. */
  read: () => Promise<Metrics>;
  /** Gets why they could not be read. */
  onError: (error: unknown) => void;
};

const SERVER_OPTIONS = { requestTimeout: 10_000, connectionsCheckingInterval: 1_000 };

/**
 * Serves `GET /metrics`, and nothing else, on a port of its own. Returns its URL. Requests that come while the metrics
 * are read share them. A connection too many closes another one, so that none keeps Prometheus out.
 * @throws Error with a message for the operator
 */
export async function serveMetrics({ host, port, read, onError }: Options) {
  let reading: Promise<Metrics | undefined> | undefined;
  const readOnce = (): Promise<Metrics | undefined> => {
    reading ??= read()
      .catch((error) => void onError(error))
      .finally(() => {
        reading = undefined;
      });
    return reading;
  };
  const respond = async ({ method, url = '' }: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (url.replace(/\?.*$/s, '') !== '/metrics') return end(response, 404, 'Not found; see /metrics.');
    if (method !== 'GET' && method !== 'HEAD') return end(response.setHeader('allow', 'GET, HEAD'), 405, '');
    const metrics = await readOnce();
    if (!metrics) return end(response, 500, 'Internal server error.');
    response.setHeader('content-type', metrics.contentType).end(metrics.text);
  };
  const connections = new FewConnections();
  const server = boundedServer(
    SERVER_OPTIONS,
    (request, response) => {
      const { socket } = request;
      connections.busy(socket);
      response.once('finish', () => connections.answered(socket));
      response.setHeader('cache-control', 'no-store');
      void respond(request, response).then(() => connections.idle(socket));
    },
    () => {},
  );
  server.on('connection', (socket) => connections.add(socket));
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
