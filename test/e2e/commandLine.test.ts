import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { logFile } from '@event-sourced/event-log/disk';
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
    const options = preload('process.umask = () => null.code;');
    const env = { DATA_DIR: join(tempDir(), 'data') };
    for (const args of [[], ['verify']]) {
      const { code, stdout, stderr } = await run({
        command: [NODE, ...options, MAIN, ...args],
        env,
      });
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(
        /^TypeError: Cannot read [^\n]+\n {4}at [^\n]+\n(.*\n)* {4}at .*src\/cli\/\w+\.ts:\d+/,
      );
    }
    expect((await main(['verify'], env)).stderr).toMatch(/^[^\n]+\n$/);
  });

  const preload = (code: string) => ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
  const withSql = (from: string, to: string) =>
    preload(`
      import { DatabaseSync } from 'node:sqlite';
      for (const name of ['exec', 'prepare']) {
        const method = DatabaseSync.prototype[name];
        DatabaseSync.prototype[name] = function (sql) {
          return method.call(this, sql.replace(${JSON.stringify(from)}, ${JSON.stringify(to)}));
        };
      }`);

  test.each([
    [
      'a view',
      withSql('CREATE TABLE plants', 'CREATE TABEL plants'),
      'near "TABEL": syntax error',
      'plantsByUser',
    ],
    ['a fold', withSql('INTO plants', 'INTO plans'), 'no such table: plans', 'plantsByUser'],
    ['a read', withSql('SELECT position,', 'SELECT positon,'), 'no such column: positon', 'read'],
    [
      'the writer',
      withSql('INSERT INTO events', 'INSERT INTO event'),
      'no such table: event',
      'appendWorker',
    ],
    [
      'a route',
      preload(`
        import { subscribe } from 'node:diagnostics_channel';
        subscribe('fastify.initialization', ({ fastify }) => fastify.get('/plants', () => {}));`),
      "Method 'GET' already declared for route '/plants'",
      'plantRoutes',
    ],
  ])('prints the file and line of a fault in %s', async (_, options, message, file) => {
    const dir = tempDir();
    const { code, stderr } = await run({ command: [NODE, ...options, MAIN], env: { DATA_DIR: dir } });
    expect(code).toBe(1);
    const [first, ...stack] = stderr.split('\n');
    expect(first).toContain(message);
    expect(stack.join('\n')).toMatch(new RegExp(` at .*/${file}\\.ts:\\d+`));
  });

  test('names the file of a log that another program has changed, also if SQLite reports an error of SQL', async () => {
    const dir = logWith({ events: 1 });
    const file = logFile(dir);
    const db = new DatabaseSync(file);
    db.exec('ALTER TABLE events RENAME COLUMN metadata TO meta');
    db.close();
    for (const [args, use] of [
      [[], 'use'],
      [['verify'], 'read'],
    ] as const)
      expect((await main([...args], { DATA_DIR: dir })).stderr).toMatch(
        new RegExp(`^cannot ${use} the log ${file}: no such column: metadata\n`),
      );
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
