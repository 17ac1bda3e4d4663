import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';
import { canRun, type Process, start } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const NPM_START = ['npm', 'start'];
/** On a terminal of its own: what is written to stdin is typed there. */
const ON_A_TERMINAL = ['script', '-qec', 'exec npm start', '/dev/null'];
const CTRL_C = '\x03';
/** Less than the server waits for clients that do not finish, in milliseconds. */
const AT_ONCE = 3_000;

const hasTerminal = canRun('Ctrl-C in a terminal', ['script', '-qec', 'true', '/dev/null']);

async function startService(command: readonly string[] = NPM_START) {
  const dir = tempDir();
  const server = start({ command, env: { DATA_DIR: dir } });
  const url = await server.listening();
  await fetch(`${url}/health/live`, { headers: { connection: 'close' } });
  return { server, url, dir, as: client(url, dir) };
}

type Service = Awaited<ReturnType<typeof startService>>;

async function connected(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** A POST of alice whose head the server has taken and whose body has arrived up to the middle. */
async function slowUpload({ url, dir }: Service, name: string) {
  const { privateKey } = loadOrCreateKey(`${dir}/key.json`);
  const token = await issueToken(privateKey, { user: 'alice', expires: '1h' });
  const body = JSON.stringify({ id: 7, name });
  const socket = await connected(url);
  let answer = '';
  const closed = once(socket, 'close').then(() => answer);
  const taken = new Promise<void>((resolve) => {
    socket.setEncoding('utf8').on('data', (text: string) => {
      answer += text;
      if (answer.startsWith('HTTP/1.1 100 ')) resolve();
    });
  });
  socket.write(
    `POST /plants HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  await taken;
  socket.write(body.slice(0, 10));
  return { finish: () => socket.write(body.slice(10)), closed };
}

/** How the process and every descendant of it have ended, and how many milliseconds after `since`. */
async function ending(server: Process, since: number) {
  const { code, signal } = await server.ended;
  return { code, signal, ms: performance.now() - since };
}

const expectRefused = (url: string) =>
  expect(fetch(`${url}/health/live`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });

async function expectCreated(closed: Promise<string>, name: string): Promise<void> {
  const answer = await closed;
  expect(answer).toContain('HTTP/1.1 200 OK');
  expect(answer).toMatch(/^connection: close\r$/im);
  expect(answer).toContain(JSON.stringify({ name }));
}

describe.for(SIGNALS)('%s to npm start', (signal) => {
  test('lets a request in flight end, then ends with 0 and leaves nothing behind', async () => {
    const service = await startService();
    const { server, url, dir } = service;
    const upload = await slowUpload(service, 'Fern');
    const since = performance.now();
    process.kill(server.pid, signal);
    await server.printed(/"closing"/);
    upload.finish();
    await expectCreated(upload.closed, 'Fern');
    const { code, ms } = await ending(server, since);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(AT_ONCE);
    expect(server.stdout()).toContain('"closed"');
    await expectRefused(url);
    const again = start({ env: { DATA_DIR: dir } });
    expect(await client(await again.listening(), dir)('alice').list()).toEqual([{ name: 'Fern' }]);
  });

  test('waits for no connection that is merely kept alive', async () => {
    const { server, url } = await startService();
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    for (let i = 0; i < 3; i++) {
      const [response] = await once(get(`${url}/health/live`, { agent }), 'response');
      await once(response.resume(), 'end');
    }
    expect(Object.values(agent.freeSockets).flat()).toHaveLength(1);
    const since = performance.now();
    process.kill(server.pid, signal);
    const { code, ms } = await ending(server, since);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(AT_ONCE);
  });

  test('cuts clients that never finish, and ends with 0 within 5 seconds', async () => {
    const service = await startService();
    const { server, url } = service;
    const upload = await slowUpload(service, 'Fern');
    const silent = await connected(url);
    const halfHead = await connected(url);
    halfHead.write('GET /plants HTTP/1.1\r\nHost: loc');
    const since = performance.now();
    process.kill(server.pid, signal);
    const { code, ms } = await ending(server, since);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(5_000);
    expect(await upload.closed).not.toContain('HTTP/1.1 200');
    for (const socket of [silent, halfHead]) if (!socket.closed) await once(socket, 'close');
    await expectRefused(url);
  });

  test('ends at once when it is sent again after more than half a second', async () => {
    const service = await startService();
    const { server, url } = service;
    const upload = await slowUpload(service, 'Fern');
    process.kill(server.pid, signal);
    await server.printed(/"closing"/);
    await pause(700);
    const again = performance.now();
    process.kill(server.pid, signal);
    const { code, ms } = await ending(server, again);
    expect(code).not.toBe(0);
    expect(ms).toBeLessThan(AT_ONCE);
    expect(await upload.closed).not.toContain('HTTP/1.1 200');
    await expectRefused(url);
  });

  test('is one signal when it is sent twice within half a second', async () => {
    const service = await startService();
    const { server } = service;
    const upload = await slowUpload(service, 'Fern');
    process.kill(server.pid, signal);
    await server.printed(/"closing"/);
    process.kill(server.pid, signal);
    await pause(300); // for the second signal to have had its effect
    upload.finish();
    await expectCreated(upload.closed, 'Fern');
    expect((await server.ended).code).toBe(0);
  });
});

describe.for(SIGNALS)('%s to the server itself', (signal) => {
  test('is graceful from the moment that it says where it listens', async () => {
    for (let i = 0; i < 3; i++) {
      const server = start({ env: { DATA_DIR: tempDir() } });
      await server.listening();
      process.kill(server.pid, signal);
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(server.stdout()).toContain('"closed"');
    }
  });
});

describe.skipIf(!hasTerminal)('Ctrl-C in a terminal', () => {
  test('is graceful, and the log is written for people', async () => {
    const service = await startService(ON_A_TERMINAL);
    const { server, url } = service;
    const upload = await slowUpload(service, 'Fern');
    const since = performance.now();
    server.stdin.write(CTRL_C);
    await server.printed(/closing/);
    await pause(100); // npm passes the signal on: it arrives twice
    upload.finish();
    await expectCreated(upload.closed, 'Fern');
    const { code, ms } = await ending(server, since);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(AT_ONCE);
    expect(server.stdout()).toMatch(/INFO.*: closed/);
    expect(server.stdout()).not.toMatch(/^\{/m);
    await expectRefused(url);
  });

  test('ends at once when it is pressed again a second later', async () => {
    const service = await startService(ON_A_TERMINAL);
    const { server, url } = service;
    await slowUpload(service, 'Fern');
    server.stdin.write(CTRL_C);
    await server.printed(/closing/);
    await pause(1_000);
    const again = performance.now();
    server.stdin.write(CTRL_C);
    const { ms } = await ending(server, again);
    expect(ms).toBeLessThan(AT_ONCE);
    await expectRefused(url);
  });
});
