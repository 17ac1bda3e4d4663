import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { curls, paste } from '../support/firstSteps.ts';
import { run, startServer } from '../support/process.ts';
import { client, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const NPM_START = ['npm', 'start'];
const JWT = /eyJ[\w-]+\./;

// Starts that fail for other reasons are in commandLine.test.ts, and as npm start in test/faults.

describe('the first start', () => {
  test('prints a POST and a GET that work when pasted, whatever the path of the data directory', async () => {
    const DATA_DIR = join(tempDir(), `Ann's $HOME \`id\` "$(id)" \\`);
    const server = await startServer({ command: NPM_START, env: { DATA_DIR } });
    await server.printed(/(^curl.*\n){2}/m);
    const [post, get, ...others] = curls(server.stdout());
    expect(others).toEqual([]);
    expect(await paste(post as string)).toEqual({ name: 'Fern', tag: 'indoor' });
    expect(await paste(get as string)).toEqual([{ name: 'Fern', tag: 'indoor' }]);
    expect(await client(server.url, DATA_DIR)('bob').list()).toEqual([]);
    expect(server.stdout() + server.stderr()).not.toMatch(JWT);
  });
});

test('a later start does not print them if there is a plant', async () => {
  const DATA_DIR = tempDir();
  const first = await startService({ DATA_DIR });
  await first.as('alice').create(1, { name: 'Fern' });
  await first.close();
  const server = await startServer({ env: { DATA_DIR } });
  process.kill(server.pid, 'SIGTERM');
  expect(await server.ended).toEqual({ code: 0, signal: null });
  expect(curls(server.stdout())).toEqual([]);
});

describe('a start with a data directory in use', () => {
  test('fails with one line, and the other server keeps running', async () => {
    const { dir: DATA_DIR, as } = await startService();
    await as('alice').create(1, { name: 'Fern' });
    const { code, stdout, stderr } = await run({ env: { DATA_DIR } });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toBe(`the data directory ${DATA_DIR} is in use by another server\n`);
    await as('alice').create(2, { name: 'Moss' });
    expect(await as('alice').list()).toEqual([{ name: 'Fern' }, { name: 'Moss' }]);
  });
});
