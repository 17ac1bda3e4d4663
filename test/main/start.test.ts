import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { run, startServer } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const NPM_START = ['npm', 'start'];
const STACK = /^\s+at /m;
const JWT = /eyJ[\w-]+\./;

const curls = (output: string): string[] => output.split('\n').filter((line) => line.startsWith('curl'));

/** Runs a line as if it were pasted into a shell in the project's folder. */
async function paste(line: string): Promise<unknown> {
  const { code, stdout, stderr } = await run({ command: ['sh', '-c', line] });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

describe('the first start', () => {
  test.for([
    ['a plain name', 'data'],
    ['a space and a quote in its name', "Ann's data"],
    ['a name full of what a shell could read', '$HOME `id` "$(id)" \\'],
  ])('in a data directory with %s shows a POST and a GET that work when pasted', async ([, name]) => {
    const DATA_DIR = join(tempDir(), name as string);
    const server = await startServer({ command: NPM_START, env: { DATA_DIR } });
    await server.printed(/(^curl.*\n){2}/m);
    const [post, get, ...others] = curls(server.stdout());
    expect(others).toEqual([]);
    expect(await paste(get as string)).toEqual([]);
    expect(await paste(post as string)).toEqual({ name: 'Fern', tag: 'indoor' });
    expect(await paste(get as string)).toEqual([{ name: 'Fern', tag: 'indoor' }]);
    expect(await client(server.url, DATA_DIR)('bob').list()).toEqual([]);
    expect(server.stdout() + server.stderr()).not.toMatch(JWT);
  });

  test('shows commands that work with a key, an issuer and an audience of one’s own', async () => {
    const dir = tempDir();
    const server = await startServer({
      env: {
        DATA_DIR: join(dir, 'data'),
        KEY_FILE: join(dir, "Ann's key.json"),
        JWT_ISSUER: "Ann's",
        JWT_AUDIENCE: 'plant store',
      },
    });
    await server.printed(/(^curl.*\n){2}/m);
    const [post, get] = curls(server.stdout());
    await paste(post as string);
    expect(await paste(get as string)).toEqual([{ name: 'Fern', tag: 'indoor' }]);
  });
});

describe('a later start', () => {
  test('shows the two commands as long as there is no plant, and not once there is one', async () => {
    const DATA_DIR = tempDir();
    const startOnce = async (then: (url: string) => Promise<unknown> = async () => {}): Promise<string> => {
      const server = await startServer({ env: { DATA_DIR } });
      await fetch(`${server.url}/health/live`);
      await then(server.url);
      process.kill(server.pid, 'SIGTERM');
      expect(await server.ended).toEqual({ code: 0, signal: null });
      return server.stdout();
    };
    const createPlant = (url: string) => client(url, DATA_DIR)('alice').create(1, { name: 'Fern' });
    expect(curls(await startOnce())).toHaveLength(2);
    expect(curls(await startOnce(createPlant))).toHaveLength(2);
    expect(curls(await startOnce())).toEqual([]);
  });
});

describe('a start that cannot be', () => {
  test('names every fault of the configuration and ends with 1', async () => {
    const { code, stdout, stderr } = await run({
      command: NPM_START,
      env: { DATA_DIR: tempDir(), PORT: '70000', LOG_LEVEL: 'loud', JWKS_URL: 'ftp://secret.example' },
    });
    expect(code).toBe(1);
    for (const name of ['PORT', 'LOG_LEVEL', 'JWKS_URL', 'JWT_ISSUER', 'JWT_AUDIENCE'])
      expect(stderr).toMatch(new RegExp(`^ +${name} `, 'm'));
    expect(stdout + stderr).not.toMatch(STACK);
    expect(stdout + stderr).not.toContain('secret');
  });

  test('says in one line that the port is in use and ends with 1', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const port = String((other.address() as AddressInfo).port);
    const { code, stdout, stderr } = await run({ env: { DATA_DIR: tempDir(), PORT: port } }).finally(() =>
      other.close(),
    );
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(new RegExp(`^.*in use.*\\b${port}\\n$`));
  });

  test('says in one line that another server uses the data directory, which goes on', async () => {
    const DATA_DIR = tempDir();
    const first = await startServer({ env: { DATA_DIR } });
    const alice = client(first.url, DATA_DIR)('alice');
    await alice.create(1, { name: 'Fern' });
    const { code, stdout, stderr } = await run({ env: { DATA_DIR } });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toBe(`the data directory ${DATA_DIR} cannot be used: another server is using it\n`);
    await alice.create(2, { name: 'Moss' });
    expect(await alice.list()).toEqual([{ name: 'Fern' }, { name: 'Moss' }]);
  });

  test('takes over the data directory of a server that was killed', async () => {
    const DATA_DIR = tempDir();
    const first = await startServer({ env: { DATA_DIR } });
    await client(first.url, DATA_DIR)('alice').create(1, { name: 'Fern' });
    await first.kill();
    const second = await startServer({ env: { DATA_DIR } });
    expect(await client(second.url, DATA_DIR)('alice').list()).toEqual([{ name: 'Fern' }]);
  });

  test.for([
    [
      'a key that others may read',
      (dir: string) => writeFileSync(join(dir, 'key.json'), '{}', { mode: 0o644 }),
    ],
    ['a key that is none', (dir: string) => writeFileSync(join(dir, 'key.json'), '{}', { mode: 0o600 })],
    ['a directory for a key', (dir: string) => mkdirSync(join(dir, 'key.json'), { mode: 0o700 })],
  ] as const)('names the key file when it finds %s', async ([, make]) => {
    const DATA_DIR = tempDir();
    make(DATA_DIR);
    const { code, stdout, stderr } = await run({ env: { DATA_DIR } });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^the key file .*key\.json cannot be used: .+\n$/);
  });

  test('names an unknown command and shows the known ones', async () => {
    const { code, stdout, stderr } = await run({ command: [...NPM_START, '--', 'frobnicate'] });
    expect(code).toBe(1);
    expect(stdout).not.toContain('listening');
    expect(stderr).toContain('frobnicate');
    expect(stderr).toContain('npm run -s token');
    expect(stderr).not.toMatch(STACK);
  });
});
