import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { tokenOf } from './service.ts';
import { onTerminal } from './terminal.ts';

export const NPM_START = ['npm', 'start'];
/** On its own terminal. */
export const ON_A_TERMINAL = onTerminal(NPM_START);
/** The log line of a server that closed connections with requests in flight. */
export const CUT = /"connections":(\d+),"msg":"closed connections of requests in flight"/;

/** What tests of processes leave out, and the service has by default. */
export const DEFAULTS = { MERKLE_TREE: 'on', DOCS: 'on' };

export async function connected(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** A keep-alive connection after three requests. */
export async function keptAlive(url: string): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  for (let i = 0; i < 3; i++) {
    const [response] = await once(get(`${url}/health/live`, { agent }), 'response');
    await once(response.resume(), 'end');
  }
  expect(Object.values(agent.freeSockets).flat()).toHaveLength(1);
}

/** A POST of alice whose head and half of whose body the server has received. */
export async function slowUpload({ url, dir }: { url: string; dir: string }, name: string) {
  const token = await tokenOf(dir, 'alice');
  const body = JSON.stringify({ id: 7, name });
  const socket = await connected(url);
  let response = '';
  const closed = once(socket, 'close').then(() => response);
  const headReceived = Promise.withResolvers<void>();
  socket.setEncoding('utf8').on('data', (text: string) => {
    response += text;
    if (response.startsWith('HTTP/1.1 100 ')) headReceived.resolve();
  });
  socket.write(
    `POST /plants HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  await headReceived.promise;
  socket.write(body.slice(0, 10));
  return { finish: () => socket.write(body.slice(10)), closed };
}

export const expectRefused = (url: string) =>
  expect(fetch(`${url}/health/live`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });

export async function expectCreated(closed: Promise<string>, name: string): Promise<void> {
  const response = await closed;
  expect(response).toContain('HTTP/1.1 200 OK');
  expect(response).toMatch(/^connection: close\r$/im);
  expect(response).toContain(JSON.stringify({ name }));
}
