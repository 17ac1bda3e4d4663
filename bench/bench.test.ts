import { once } from 'node:events';
import { cpSync, globSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ROOT, run } from '../test/support/process.ts';
import { measureLoad } from './measure.ts';

const bench = (...args: string[]) => run({ command: ['npm', 'run', '-s', 'bench', '--', ...args] });
const SHORT = ['--rounds', '1', '--seconds', '1', '--events', '1000', '--connections', '4'];

describe('npm run bench', () => {
  test('measures every part beside a reference and another checkout', async () => {
    const { code, stdout } = await bench(...SHORT, '--against', ROOT);
    expect(code).toBe(0);
    for (const part of ['post', 'get', 'replay', 'verify'])
      expect(stdout.match(RegExp(`'${part}' .*\\d.* to `, 'g'))).toHaveLength(2);
  });

  test.each([
    [['--only', 'speed'], 'There is no part speed.'],
    [['--against', '/'], 'It has no src/cli/main.ts.'],
    [['--rounds', '0'], 'It must be a whole number from 1.'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await bench(...args);
    expect(code).toBe(1);
    expect(stderr).toContain(message);
  });
});

test('npm run bench -- scale measures a log that grows', async () => {
  const args = ['--events', '1000', '--users', '10', '--seconds', '1'];
  const { code, stdout } = await run({ command: ['npm', 'run', '-s', 'bench', '--', 'scale', ...args] });
  expect(code).toBe(0);
  expect(stdout).toContain('| events | 100 | 500 | 1000 |');
  expect(stdout).not.toMatch(/NaN|undefined|Infinity/);
});

test.each([[], ['scale']])(
  'npm run bench -- %s reports what installs the packages that it needs',
  async (...args) => {
    const dir = tempDir();
    for (const name of ['bin', 'node_modules', 'packages', 'projections', 'src', 'package.json'])
      symlinkSync(join(ROOT, name), join(dir, name));
    for (const file of globSync('bench/*.{ts,json}', { cwd: ROOT }))
      cpSync(join(ROOT, file), join(dir, file));
    const { code, stdout, stderr } = await run({
      command: ['npm', '--prefix', dir, 'run', '-s', 'bench', '--', ...args],
    });
    const line = 'npm ci --prefix bench installs what benchmarks need.\n';
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: line });
  },
);

describe('a load', () => {
  test('creates plants with new IDs, as all users', async () => {
    const { bodies, tokens, load } = await target(200);
    expect((await load()).perSecond).toBeGreaterThan(0);
    expect(new Set(bodies).size).toBe(bodies.length);
    expect(new Set(tokens)).toEqual(new Set(['Bearer a', 'Bearer b', 'Bearer c']));
  });

  test.each([503, 'reset'] as const)('fails if the server responds with %s', async (respond) => {
    const { load } = await target(respond);
    await expect(load()).rejects.toThrow(/[1-9]\d* error/);
  });
});

/** A load of POSTs on a server that records them. */
async function target(respond: number | 'reset') {
  const bodies: string[] = [];
  const tokens: unknown[] = [];
  const server = createServer(async (request, response) => {
    tokens.push(request.headers.authorization);
    bodies.push(await text(request));
    if (respond === 'reset') request.socket.resetAndDestroy();
    else response.writeHead(respond).end('[]');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const tokenFile = join(tempDir(), 'tokens');
  writeFileSync(tokenFile, 'a\nb\nc');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const load = () =>
    measureLoad({ url, pid: process.pid }, { method: 'POST', connections: 4, seconds: 1, tokenFile });
  return { bodies, tokens, load };
}
