import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { expectRefused, typed } from '../commands/typed.ts';
import { logWith } from '../support/logs.ts';
import { MAIN, NODE, run, start } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

const CHECK_PROOF = [NODE, MAIN, 'check-proof'];

const main = (args: string[], env: Record<string, string>) => run({ command: [NODE, MAIN, ...args], env });

describe('the command line as a process', () => {
  test('prints its help on stdout and ends with 0, whatever else is wrong', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const help = await main(['--help'], { PORT: 'x', DATA_DIR });
    expect(help).toEqual({ ...(await typed(['--help'])), signal: null });
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  test('refuses an unknown command in one line on stderr and ends with 1', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expectRefused(await main(['paint'], { DATA_DIR }), /paint.* replay/);
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  test('as the server names all faults of a bad configuration, and ends with 1', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expect(await main([], { DATA_DIR, PORT: 'x', HOST: 'a b', EVENT_SOURCE: 'no uri' })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: expect.stringMatching(
        /^the configuration cannot be used:\n {2}HOST [^\n]+\n {2}PORT [^\n]+\n {2}EVENT_SOURCE [^\n]+\n$/,
      ),
    });
    expect(existsSync(DATA_DIR)).toBe(false);
  });
});

describe('npm run plants', () => {
  const ofBob = [NODE, MAIN, 'plants', '--user', 'bob', '--at', '4'];

  test('prints the plants on stdout, and leaves quietly a reader who wants no more', async () => {
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
    const proving = await typed(['prove', '--user', 'bob', '--id', '2'], env);
    const { root } = JSON.parse(proving.stdout);
    expect(await check(proving.stdout)).toEqual({
      code: 0,
      signal: null,
      stdout: expect.stringMatching(RegExp(`of "plant-bob/2" is number 2 of the log 3:${root}\n$`)),
      stderr: '',
    });
  });

  test('ends with 1 and one line where more comes than any proof can have, and reads no further', async () => {
    expectRefused(await check(Buffer.alloc(17 * 1024 * 1024, ' ')), /this is no proof: it is too large/);
  });

  test('is ended by Ctrl-C while it waits for its input', async () => {
    const checking = start({ command: CHECK_PROOF });
    checking.stdin.write(' '.repeat(1024 * 1024));
    await once(checking.stdin, 'drain'); // so it reads
    process.kill(checking.pid, 'SIGINT');
    expect(await checking.ended).toEqual({ code: null, signal: 'SIGINT' });
    expect([checking.stdout(), checking.stderr()]).toEqual(['', '']);
  });
});

/** What check-proof prints of what it reads. */
async function check(proof: string | Buffer) {
  const checking = start({ command: CHECK_PROOF });
  checking.stdin.end(proof);
  return { ...(await checking.ended), stdout: checking.stdout(), stderr: checking.stderr() };
}
