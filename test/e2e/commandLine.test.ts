import { once } from 'node:events';
import { cpSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { runCli, succeeded } from '../support/cli.ts';
import { MAIN, NODE, ROOT, run, start } from '../support/process.ts';

/** The verifier key of another log. */
const VKEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';

const main = (args: string[], env: Record<string, string>) => run({ command: [NODE, MAIN, ...args], env });

describe('the command line as a process', () => {
  test('prints its help on stdout and exits with 0, despite other errors', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const help = await main(['--help'], { PORT: 'x', DATA_DIR });
    expect(help).toEqual({ ...(await runCli(['--help'])), signal: null });
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  test('as the server reports all problems of an invalid configuration, and exits with 1', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expect(await main([], { DATA_DIR, PORT: 'x', HOST: 'a b', EVENT_SOURCE: 'no uri' })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: expect.stringMatching(
        /^invalid configuration:\n {2}HOST [^\n]+\n {2}PORT [^\n]+\n {2}EVENT_SOURCE [^\n]+\n$/,
      ),
    });
    expect(existsSync(DATA_DIR)).toBe(false);
  });
});

test('npm run check-proof reads from stdin what prove prints', async () => {
  const env = { DATA_DIR: logWith({ events: 3 }) };
  const key = (await runCli(['log-key'], env)).stdout.trim();
  const proving = await runCli(['prove', '--user', 'bob', '--id', '2'], env);
  const checking = await run({ command: [NODE, MAIN, 'check-proof', '--key', key] }, proving.stdout);
  expect(succeeded(checking)).toMatch(
    /of "plant-bob\/2" is number 2 of the log urn:plant-store 3:[\da-f]{64}\n$/,
  );
});

test('npm run check-proof is stopped by SIGINT while it waits for its input', async () => {
  const checking = start({ command: [NODE, MAIN, 'check-proof', '--key', VKEY] });
  checking.stdin.write(' '.repeat(1024 * 1024));
  await once(checking.stdin, 'drain'); // so it is reading
  process.kill(checking.pid, 'SIGINT');
  expect(await checking.ended).toEqual({ code: null, signal: 'SIGINT' });
  expect([checking.stdout(), checking.stderr()]).toEqual(['', '']);
});

test('npm run monitor --once exits with 2 if the log is unavailable', async () => {
  const state = join(tempDir(), 'checkpoint');
  const args = ['--url', 'http://127.0.0.1:1', '--key', VKEY, '--state', state, '--once'];
  const ended = await run({ command: [NODE, MAIN, 'monitor', ...args], env: { TOKEN: 'secret' } });
  expect(ended).toMatchObject({ code: 2, stdout: '' });
});

test('exec of node_modules/.bin, where the shell has none, runs its command', async () => {
  const command = [NODE, join(ROOT, 'node_modules/plant-store-command/node.js'), 'node', '-p', '1'];
  expect(await run({ command })).toEqual({ code: 0, signal: null, stdout: '1\n', stderr: '' });
});

test('before npm ci, an npm script says what is missing', async () => {
  const script = join(tempDir(), 'node.js');
  cpSync(join(ROOT, 'src/cli/node.js'), script);
  const stderr = 'The dependencies are missing; run `npm ci` first.\n';
  expect(await run({ command: [NODE, script, MAIN] })).toEqual({ code: 1, signal: null, stdout: '', stderr });
});
