import { existsSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { copy } from '../../src/copy/copy.ts';
import { tempDir } from '../support/tempDir.ts';
import { dirWith, startDouble } from './logs.ts';

const USAGE = 'npm run copy -- --from <url|dir> --to <url|dir>';
const SECRET = 'Hush-7.3';
const AWAY = `esdb://admin:${SECRET}@127.0.0.1:1?tls=false`;

describe('a copy cannot begin', () => {
  test.each([
    ['without --from and --to', []],
    ['without --to', ['--from', './data']],
    ['without --from', ['--to', './data']],
    ['with two sources', ['--from', './data', '--from', './other', '--to', AWAY]],
  ])('%s', async (_, args) => {
    expect(await refusal(args)).toBe(`one --from and one --to are needed: ${USAGE}`);
  });

  test.each([
    ['with an option that is unknown', ['--form', './data', '--to', AWAY]],
    ['with an option without its value', ['--from', '--to', AWAY]],
    ['with places and no options', ['./data', AWAY]],
  ])('%s', async (_, args) => {
    expect(await refusal(args)).toBe(`usage: ${USAGE}`);
  });

  test.each([
    ['of an unknown scheme', `mongodb://admin:${SECRET}@localhost`],
    ['without its scheme', `admin:${SECRET}@localhost:2113`],
    ['with a slash too few', `esdb:/admin:${SECRET}@localhost:2113`],
    ['with an @ in the password', `esdb://admin:${SECRET}@@localhost:2113`],
    ['with an option that is unknown', `esdb://admin:${SECRET}@localhost?tsl=${SECRET}`],
  ])('with a connection string %s, which it does not repeat', async (_, url) => {
    for (const [option, args] of [
      ['--from', ['--from', url, '--to', tempDir()]],
      ['--to', ['--from', tempDir(), '--to', url]],
    ] as const)
      expect(await refusal([...args])).toMatch(new RegExp(`^${option} (must|has) `));
  });

  test('with a name that is empty', async () => {
    const message = '--to must be a connection string or a directory';
    expect(await refusal(['--from', './data', '--to', ''])).toBe(message);
  });

  test('from one directory to the same, however it is named', async () => {
    const dir = tempDir();
    const link = join(tempDir(), 'link');
    symlinkSync(dir, link);
    for (const same of [dir, `${dir}/`, link, relative('.', dir)])
      expect(await refusal(['--from', dir, '--to', same])).toBe(
        `--from and --to are the same place: ${USAGE}`,
      );
  });

  test.each([AWAY, AWAY.replace('esdb', 'kurrentdb')])('from one server to the same', async (same) => {
    expect(await refusal(['--from', AWAY, '--to', same])).toBe(
      `--from and --to are the same place: ${USAGE}`,
    );
  });

  test('from a directory without a log, which gets none', async () => {
    const to = join(tempDir(), 'to');
    const missing = join(tempDir(), 'missing');
    const empty = tempDir();
    const begun = tempDir();
    writeFileSync(join(begun, 'log.db'), '');
    for (const dir of [missing, empty, begun])
      expect(await refusal(['--from', dir, '--to', to])).toBe(
        `--from: there is no log in the directory ${dir}`,
      );
    expect([missing, to].map((dir) => existsSync(dir))).toEqual([false, false]);
    expect(readdirSync(empty)).toEqual([]);
    expect(statSync(join(begun, 'log.db')).size).toBe(0);
  });

  test('where a directory or its log is something else', async () => {
    const dir = tempDir();
    writeFileSync(join(dir, 'log.db'), 'no SQLite');
    expect(await refusal(['--from', dir, '--to', tempDir()])).toMatch(/^--from: the log .* cannot be used: /);
    const from = await dirWith(1);
    expect(await refusal(['--from', from, '--to', dir])).toMatch(/^--to: the log .* cannot be used: /);
    const file = join(dir, 'log.db');
    expect(await refusal(['--from', from, '--to', file])).toMatch(
      /^--to: the data directory .* cannot be used: /,
    );
  });

  test('from or to a server that is away, or that does not take the user', async () => {
    const double = await startDouble({ users: { admin: 'another' } });
    const closed = double.url.replace('//', `//admin:${SECRET}@`);
    const dir = await dirWith(1);
    const other = await dirWith(1);
    const [away, awayToo, unwelcome] = await Promise.all([
      refusal(['--from', AWAY, '--to', tempDir()]),
      refusal(['--from', dir, '--to', AWAY]),
      refusal(['--from', other, '--to', closed]),
    ]);
    expect(away).toMatch(/^the source cannot be reached: /);
    expect(awayToo).toMatch(/^the target cannot be reached: /);
    expect(unwelcome).toMatch(/^--to: the server does not take the user or the password/);
  });
});

async function refusal(args: string[]): Promise<string> {
  const said: string[] = [];
  const outcome = await copy(args, {
    say: (line) => said.push(line),
    onTerminal: false,
    onFatal: (error) => {
      throw error;
    },
  }).catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(Error);
  const { message } = outcome as Error;
  expect([...said, message].join('\n')).not.toContain(SECRET);
  expect(message).not.toContain('\n');
  return message;
}
