import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { listenOn } from '@event-sourced/node/testing';
import { onTestFinished } from 'vitest';

/** The time without data after which `idle` is called, in milliseconds. */
const QUIET_MS = 50;
type Idle = () => Promise<unknown>;

/** An HTTP server on the loopback interface, closed at the end of the test. */
export async function listen(handler: RequestListener, port = 0) {
  const server = createServer(handler);
  server.maxRequestsPerSocket = 1; // so that no client reuses a connection to a closed server
  const listening = await listenOn(server, port);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };
  onTestFinished(close);
  return { port: listening, server, close };
}

/** A connection that keeps sending after the server has ended its side. */
function open(url: string): Socket {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port), allowHalfOpen: true });
  return socket.on('error', () => {}); // a reset closes the connection, too
}

/** The same, until the end of the test. */
export function connection(url: string): Socket {
  const socket = open(url);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** A connection that sends bytes and reads nothing; resolves when the first bytes of a response have arrived. */
export async function unread(url: string, bytes: string): Promise<Socket> {
  const socket = connection(url);
  socket.write(bytes);
  await once(socket, 'readable');
  return socket;
}

/** The bytes of a GET with a bearer token, and with these other fields. */
export const getWith = (path: string, token: string, fields = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer ${token}\r\n${fields}\r\n`;

/**
 * Sends bytes over a new connection; returns all bytes received until the server closes it. With `idle`,
 * the sending side is closed when nothing was received while `idle` resolved.
 */
export function exchange(url: string, bytes: string | Buffer, idle?: Idle): Promise<Buffer> {
  return new Promise((resolve) => {
    const received: Buffer[] = [];
    const socket = open(url);
    socket.on('data', (piece: Buffer) => received.push(piece));
    socket.on('end', () => socket.destroy());
    socket.on('close', () => resolve(Buffer.concat(received)));
    socket.write(bytes);
    if (!idle) return;
    socket.setTimeout(QUIET_MS);
    socket.on('timeout', async () => {
      const before = received.length;
      await idle();
      if (received.length === before) socket.end();
    });
  });
}

/** The final responses in a sequence of bytes, without interim ones (1xx). @throws Error if it is not HTTP */
export function responsesIn(bytes: Buffer): Response[] {
  const responses: Response[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const end = rest.indexOf('\r\n\r\n');
    const [first = '', ...lines] = rest.toString('latin1', 0, Math.max(end, 0)).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
    if (end === -1 || Number.isNaN(status))
      throw new Error(`not an HTTP response: ${rest.toString('latin1')}`);
    rest = rest.subarray(end + 4);
    if (status < 200) continue;
    const headers = new Headers(lines.map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    const length = Number(headers.get('content-length') ?? 0);
    if (headers.has('transfer-encoding') || rest.length < length)
      throw new Error(`incomplete response: ${first}`);
    responses.push(new Response(status === 204 ? null : rest.subarray(0, length), { status, headers }));
    rest = rest.subarray(length);
  }
  return responses;
}

/** The only response to these bytes; `idle` as for `exchange`. */
export async function responseTo(url: string, bytes: string | Buffer, idle?: Idle): Promise<Response> {
  const [response, ...others] = responsesIn(await exchange(url, bytes, idle));
  if (!response || others.length > 0)
    throw new Error(`${others.length + (response ? 1 : 0)} responses, not one`);
  return response;
}
