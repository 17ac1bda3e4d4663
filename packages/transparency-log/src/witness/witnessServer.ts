import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { printable } from '../notes/printable.ts';
import { WitnessStateUnusable } from './cosignedCheckpointFile.ts';
import { CheckpointRejected, type Witness } from './witness.ts';

/** Enough for 63 hashes, and a checkpoint with 16 signatures of 5 kB. */
const MAX_BODY_BYTES = 128 * 1024;
/** The maximum number of requests with complete bodies; a timeout limits the others. */
const MAX_IN_FLIGHT = 256;
/** Each may hold an incomplete body: 128 MiB in all. A new connection beyond the limit closes the oldest one. */
const MAX_CONNECTIONS = 1_024;
const TIMEOUTS = {
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 75_000,
  connectionsCheckingInterval: 2_000,
};
/** For requests in flight when the server closes; then it closes their connections. */
const DRAIN_TIMEOUT_MS = 3_000;

type Reply = { status: number; body: string; headers?: Record<string, string> };

const NOT_FOUND: Reply = { status: 404, body: 'Not found.\n' };

/** The port 0 selects a free one. */
type ServerOptions = { host: string; port: number; print: (line: string) => void };

/** Serves a witness over HTTP. `print` gets a line for each rejected or failed request of a known log. @throws Error */
export async function startWitnessServer(
  witness: Witness,
  { host, port, print }: ServerOptions,
): Promise<{ url: string; close: () => Promise<void> }> {
  const inFlight = new Set<Promise<void>>();
  let adding = 0;
  const server = createServer(TIMEOUTS, (request, response) => {
    const handled = reply(request)
      .catch((error) => replyTo(error, print))
      .then((result) => {
        if (!server.listening) response.setHeader('connection', 'close');
        send(response, result);
        inFlight.delete(handled);
      });
    inFlight.add(handled);
  });

  async function reply(request: IncomingMessage): Promise<Reply> {
    const path = request.url?.replace(/\?.*/s, '') ?? '';
    const logId = /^\/([\da-f]{64})\/checkpoint$/.exec(path)?.[1];
    if (path !== '/add-checkpoint' && !logId) return NOT_FOUND;
    const allowed = logId ? ['GET', 'HEAD'] : ['POST'];
    if (!allowed.includes(request.method ?? '')) {
      const allow = allowed.join(', ');
      return { status: 405, body: `Method not allowed; use ${allow}.\n`, headers: { allow } };
    }
    if (logId) {
      const checkpoint = await witness.checkpoint(logId);
      return checkpoint === undefined ? NOT_FOUND : { status: 200, body: checkpoint };
    }
    const body = await readBody(request);
    if (!body) return { status: 413, body: `A request has at most ${MAX_BODY_BYTES} bytes.\n` };
    if (adding >= MAX_IN_FLIGHT)
      return { status: 503, body: 'Too many requests.\n', headers: { 'retry-after': '1' } };
    adding++;
    try {
      return { status: 200, body: await witness.addCheckpoint(body) };
    } finally {
      adding--;
    }
  }

  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (open.size <= MAX_CONNECTIONS || !oldest) return;
    open.delete(oldest);
    oldest.destroy();
  });
  server.listen(port, host);
  await once(server, 'listening');
  const bound = server.address() as AddressInfo;
  server.on('error', ({ message }) => print(printable(message))); // for example, too many open files
  return {
    url: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      const drained = setTimeout(() => server.closeAllConnections(), DRAIN_TIMEOUT_MS);
      await closed;
      clearTimeout(drained);
      await Promise.all(inFlight); // they still use the state directory
    },
  };
}

function send(response: ServerResponse, { status, body, headers }: Reply): void {
  const length = Buffer.byteLength(body);
  const own = { 'content-type': 'text/plain; charset=utf-8', 'content-length': length };
  response.writeHead(status, { ...own, ...headers }).end(body);
}

function replyTo(error: Error, print: (line: string) => void): Reply {
  const log = (status: number, text: string) =>
    print(printable(`${new Date().toISOString()}  ${status}  ${text}`));
  if (!(error instanceof CheckpointRejected)) {
    const status = error instanceof WitnessStateUnusable ? 503 : 500;
    log(status, error.message);
    return { status, body: 'The checkpoint cannot be recorded or read.\n' };
  }
  const { status, message, details } = error;
  const evidence = details.evidence?.map((note) => `  ${Buffer.from(note).toString('base64')}`) ?? [];
  if (details.origin) log(status, `${details.origin}  ${message}${evidence.join('')}`);
  if (status !== 409) return { status, body: `${printable(message)}\n` };
  return { status, body: `${details.size}\n`, headers: { 'content-type': 'text/x.tlog.size' } };
}

/** The body; undefined if it is too large or incomplete. Uses one buffer, since many small pieces take more memory. */
function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  let bytes = Buffer.allocUnsafe(MAX_BODY_BYTES);
  let length = 0;
  return new Promise((resolve) => {
    request.on('data', (piece: Buffer) => {
      piece.copy(bytes, length);
      length += piece.length;
      if (length <= MAX_BODY_BYTES) return;
      bytes = Buffer.alloc(0); // the rest is read and ignored
      resolve(undefined);
    });
    request.on('end', () => resolve(bytes.subarray(0, length)));
    request.on('close', () => resolve(undefined));
  });
}
