import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AUDIENCE, signingKey, startIdentityProvider } from '@event-sourced/testing/identityProvider';
import { connection, listen } from '@event-sourced/testing/rawHttp';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { FakeWitness } from '../../packages/transparency-log/test/signer/fakeWitness.ts';
import {
  CUT,
  DEFAULTS,
  expectCreated,
  expectRefused,
  NPM_START,
  ON_A_TERMINAL,
  slowUpload,
} from '../support/closing.ts';
import { auditorToken, openEvents } from '../support/eventStream.ts';
import { curls, paste } from '../support/firstSteps.ts';
import { MAIN, NODE, ROOT, run } from '../support/process.ts';
import { startServer } from '../support/server.ts';
import { startService } from '../support/service.ts';
import { CTRL_C, hasTerminal } from '../support/terminal.ts';

const LAUNCHER = join(ROOT, 'bin/plant-store');
const EXITED = { code: 0, signal: null };
const JWT = /eyJ[\w-]+\./;

// Other signals, a second signal and clients that never finish are in test/faults; starts that fail are in
// commandLine.test.ts and in test/faults.

test('npm start prints a POST and a GET that work when pasted; SIGTERM completes requests in flight and event streams, and the server exits with 0', async () => {
  const DATA_DIR = join(tempDir(), `Ann's $HOME \`id\` "$(id)" \\`);
  const server = await startServer({ command: NPM_START, env: { DATA_DIR, ...DEFAULTS } });
  const { url } = server;
  await server.printed(/(^curl.*\n){2}/m);
  const [post, get, ...others] = curls(server.stdout());
  expect(others).toEqual([]);
  expect(await paste(post as string)).toEqual({ name: 'Fern', tag: 'indoor' });
  expect(await paste(get as string)).toEqual([{ name: 'Fern', tag: 'indoor' }]);
  expect(await server.as('bob').list()).toEqual([]);
  await server.as('line\u2028end\u202e').list();
  await server.printed(/line\\u2028end\\u202e/); // in one line, for every reader

  expect([DATA_DIR, join(DATA_DIR, 'log.db')].map((path) => statSync(path).mode & 0o777)).toEqual([
    0o700, 0o600,
  ]);
  const inUse = `the data directory ${DATA_DIR} is in use by another server`;
  await expect(startService({ DATA_DIR })).rejects.toThrow(inUse);

  await (await fetch(`${url}/health/live`)).text(); // its connection is kept alive
  const stream = await openEvents(url, { token: await auditorToken(DATA_DIR), query: '' });
  stream.read();
  await stream.received(/\n\n/);
  const upload = await slowUpload(server, 'Moss');
  process.kill(server.pid, 'SIGTERM');
  await server.printed(/"closing"/);
  upload.finish();
  await expectCreated(await upload.response, 'Moss');
  expect(await stream.ended).toBe(true);
  expect((await server.ended).code).toBe(0);
  expect(server.stdout()).toContain('"closed"');
  expect(server.stdout()).not.toMatch(CUT);
  expect(server.stdout() + server.stderr()).not.toMatch(JWT);
  await expectRefused(url);
});

test.runIf(process.platform === 'linux').each([64, 100])(
  'connections that would use up the %d open files are refused and logged; others are served',
  async (files) => {
    const command = ['sh', '-c', `ulimit -n ${files} && exec '${NODE}' '${MAIN}'`];
    const server = await startServer({ command, env: { MERKLE_TREE: 'on' } });
    const sockets = Array.from({ length: 150 }, () => connection(server.url));
    await server.printed(/"refused":[1-9]\d*,"msg":"closed connections over a limit"/);
    for (const socket of sockets) socket.destroy();
    await expect
      .poll(() =>
        server
          .as('alice')
          .list()
          .catch(() => undefined),
      )
      .toEqual([]);
  },
);

test('in the image, a start and the help print the command as docker exec takes it', async () => {
  const [, IMAGE_COMMAND = ''] =
    /^ENV IMAGE_COMMAND=(.*)$/m.exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')) ?? [];
  const server = await startServer({ env: { IMAGE_COMMAND, JWT_AUDIENCE: 'plants' } });
  await server.printed(/"to create a token: plant-store token USER"/);
  expect(await server.terminate()).toEqual(EXITED);
  expect(curls(server.stdout())).toEqual([]);
  const { stdout } = await run({ command: [LAUNCHER, '--help'], env: { IMAGE_COMMAND } });
  expect(stdout).toMatch(/^Usage: plant-store /);
});

test('the service asks others through a proxy, and this machine directly', async () => {
  const provider = await startIdentityProvider(await signingKey('ES256')); // on this machine
  const asked: string[] = [];
  const proxy = await listen(({ url = '' }) => void asked.push(url));
  proxy.server.on('connect', ({ url = '' }, socket) => {
    asked.push(url);
    socket.end();
  });
  const PROXY = `http://127.0.0.1:${proxy.port}`;
  const witness = new FakeWitness('w1');
  witness.url = 'https://witness.invalid';
  const env = {
    ...{ HTTPS_PROXY: PROXY, HTTP_PROXY: PROXY, MERKLE_TREE: 'on', WITNESSES: witness.setting },
    ...{ JWKS_URL: `${provider.issuer}/keys`, JWT_ISSUER: provider.issuer, JWT_AUDIENCE: AUDIENCE },
  };
  const { url } = await startServer({ env: { ...env, DATA_DIR: tempDir() } });
  const authorization = `Bearer ${await provider.token('alice', AUDIENCE)}`;
  expect((await fetch(`${url}/plants`, { headers: { authorization } })).status).toBe(200);
  await expect.poll(() => asked).toContain('witness.invalid:443');
  expect(new Set(asked)).toEqual(new Set(['witness.invalid:443']));
});

test.for([
  ['SIGINT to npm', NPM_START, 'SIGINT', process.kill],
  ['SIGINT to bin/plant-store', [LAUNCHER], 'SIGINT', process.kill],
] as const)('%s ends the server', async ([, command, signal, send]) => {
  const server = await startServer({ command });
  send(server.pid, signal);
  expect(await server.ended).toEqual(EXITED);
  expect(server.stdout()).toContain('"closed"');
  await expectRefused(server.url);
});

test('after nohup, SIGHUP does not end the server; SIGUSR1 opens no debugger', async () => {
  const server = await startServer({ command: ['sh', '-c', `trap '' HUP; exec '${LAUNCHER}'`] });
  process.kill(server.pid, 'SIGHUP');
  process.kill(server.pid, 'SIGUSR1');
  expect((await fetch(`${server.url}/health/live`)).status).toBe(200);
  expect(await server.terminate()).toEqual(EXITED);
  expect(server.stdout()).not.toContain('SIGHUP');
  expect(server.stderr()).toBe('');
});

test.skipIf(!hasTerminal)(
  'a later npm start, in a terminal, lists the plants, prints no POST and human-readable logs, and Ctrl-C completes requests in flight',
  async () => {
    const DATA_DIR = tempDir();
    const first = await startService({ DATA_DIR });
    await first.as('alice').create(1, { name: 'Fern' });
    await first.close();
    const server = await startServer({ command: ON_A_TERMINAL, env: { DATA_DIR, ...DEFAULTS } });
    expect(await server.as('alice').list()).toEqual([{ name: 'Fern' }]);
    const upload = await slowUpload(server, 'Moss');
    server.stdin.write(CTRL_C); // npm forwards the signal: it arrives twice
    await server.printed(/closing/);
    upload.finish();
    await expectCreated(await upload.response, 'Moss');
    expect((await server.ended).code).toBe(0);
    expect(server.stdout()).toMatch(/INFO.*: closed/);
    expect(server.stdout()).not.toMatch(/^\{/m);
    expect(curls(server.stdout())).toEqual([]);
    await expectRefused(server.url);
  },
);
