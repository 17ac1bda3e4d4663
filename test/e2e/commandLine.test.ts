import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { MAIN, NODE, run } from '../support/process.ts';

const main = (args: string[], env: Record<string, string>) => run({ command: [NODE, MAIN, ...args], env });

describe('the command line as a process', () => {
  test('prints its help on stdout and exits with 0, despite other errors', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const help = await main(['--help'], { PORT: 'x', DATA_DIR });
    expect(help).toEqual({ ...(await runCli(['--help'])), signal: null });
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  test('prints no character that changes the direction of a terminal', async () => {
    const { code, stderr } = await main(['replay', '--user', 'al\u202eice'], {
      DATA_DIR: logWith({ events: 1 }),
    });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'The log has no event of the user "al\\u{202e}ice".\n',
    });
  });

  test('prints a fault of the code with its stack, and an expected error in a sentence', async () => {
    const fault = 'process.umask = () => null.code;';
    const preload = `data:text/javascript,${encodeURIComponent(fault)}`;
    const env = { DATA_DIR: join(tempDir(), 'data') };
    for (const args of [[], ['verify']]) {
      const { code, stdout, stderr } = await run({
        command: [NODE, '--import', preload, MAIN, ...args],
        env,
      });
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(
        /^TypeError: Cannot read [^\n]+\n {4}at [^\n]+\n(.*\n)* {4}at .*src\/cli\/\w+\.ts:\d+/,
      );
    }
    expect((await main(['verify'], env)).stderr).toMatch(/^[^\n]+\n$/);
  });

  test('the server needs the compiler of Node, and creates no file without it', async () => {
    const env = {
      DATA_DIR: join(tempDir(), 'data'),
      NODE_OPTIONS: '--disallow-code-generation-from-strings',
    };
    expect(await main([], env)).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: 'remove --disallow-code-generation-from-strings from the options of Node\n',
    });
    expect(existsSync(env.DATA_DIR)).toBe(false);
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
