import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli } from '../support/cli.ts';
import { logWith } from '../support/logs.ts';
import { MAIN, NODE, run, start } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

const CHECK_PROOF = [NODE, MAIN, 'check-proof'];
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

  test('reports an unknown command in one line on stderr and exits with 1', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expectRefused(await main(['paint'], { DATA_DIR }), /paint.* replay/);
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

describe('npm run plants', () => {
  const ofBob = [NODE, MAIN, 'plants', '--user', 'bob', '--at', '4'];

  test('prints the plants on stdout, and exits without an error when its reader closes the pipe', async () => {
    const env = { DATA_DIR: logWith({ events: 6 }) };
    expect(await run({ command: ofBob, env })).toEqual({
      code: 0,
      signal: null,
      stdout: '[{"name":"plant 2"},{"name":"plant 4"}]\n',
      stderr: '',
    });
    const cut = ['bash', '-c', 'set -o pipefail; "$@" | true', 'bash', ...ofBob];
    expect(await run({ command: cut, env })).toEqual({ code: 0, signal: null, stdout: '', stderr: '' });
  });
});

describe('npm run check-proof', () => {
  test('reads from stdin what prove prints', async () => {
    const env = { DATA_DIR: logWith({ events: 3 }) };
    const key = (await runCli(['log-key'], env)).stdout.trim();
    const proving = await runCli(['prove', '--user', 'bob', '--id', '2'], env);
    expect(await check(proving.stdout, key)).toEqual({
      code: 0,
      signal: null,
      stdout: expect.stringMatching(
        /of "plant-bob\/2" is number 2 of the log urn:plant-store 3:[\da-f]{64}\n$/,
      ),
      stderr: '',
    });
  });

  test('exits with 1 and one line when its input is too large, and stops reading', async () => {
    expectRefused(await check(Buffer.alloc(3 * 1024 * 1024, ' ')), /not a proof: it is too large/);
  });

  test('is stopped by Ctrl-C while it waits for its input', async () => {
    const checking = start({ command: [...CHECK_PROOF, '--key', VKEY] });
    checking.stdin.write(' '.repeat(1024 * 1024));
    await once(checking.stdin, 'drain'); // so it is reading
    process.kill(checking.pid, 'SIGINT');
    expect(await checking.ended).toEqual({ code: null, signal: 'SIGINT' });
    expect([checking.stdout(), checking.stderr()]).toEqual(['', '']);
  });
});

test('npm run monitor --once exits with 2 if the log is unavailable, and with 1 for a mistake', async () => {
  const monitor = (url: string) => {
    const args = ['monitor', '--url', url, '--key', VKEY, '--state', join(tempDir(), 'checkpoint'), '--once'];
    return run({ command: [NODE, MAIN, ...args], env: { TOKEN: 'secret' } });
  };
  expect(await monitor('http://127.0.0.1:1')).toMatchObject({ code: 2, stdout: '' });
  expect(await monitor('127.0.0.1:1')).toMatchObject({ code: 1, stdout: '' });
});

/** Runs check-proof with this input. */
async function check(proof: string | Buffer, key = VKEY) {
  const checking = start({ command: [...CHECK_PROOF, '--key', key] });
  checking.stdin.end(proof);
  return { ...(await checking.ended), stdout: checking.stdout(), stderr: checking.stderr() };
}
