import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import { tempDir } from '../support/tempDir.ts';
import { expectRefused, typed } from './typed.ts';

const COMMANDS = {
  token: ['--expires', '--scope'],
  copy: ['--from', '--to'],
  replay: ['--after', '--user', '--id', '--type', '--since', '--until', '--limit', '--follow', '--table'],
  plants: ['--user', '--at'],
  verify: ['--expect', '--json'],
  prove: ['--user', '--id', '--size', '--from', '--to'],
  'check-proof': [],
  rebuild: [],
  backup: [],
};
const NAMES = Object.keys(COMMANDS);

/** What each of them needs to get to work, besides its name. */
const NEEDED: Record<string, string[]> = {
  plants: ['--user', 'alice'],
  prove: ['--user', 'alice', '--id', '1'],
  backup: ['copy.db'],
  token: ['alice'],
};
const complete = (name: string): string[] => [name, ...(NEEDED[name] ?? [])];

describe('--help', () => {
  test.for(Object.entries(COMMANDS))(
    'of %s names its options and how it is typed',
    async ([name, options]) => {
      const { code, stdout, stderr } = await typed([name, '--help']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toContain(`npm run -s ${name} `);
      for (const option of options) expect(stdout).toMatch(RegExp(`${option}\\b`));
      expect(await typed([name, '-h'])).toEqual({ code, stdout, stderr });
    },
  );

  test('names every command, and how the service is started', async () => {
    const { code, stdout, stderr } = await typed(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const name of ['npm start', 'npm run -s', ...NAMES]) expect(stdout).toContain(name);
  });

  test('is printed whatever else is wrong', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expect(await typed(['--help'], { PORT: 'x', DATA_DIR })).toEqual(await typed(['--help']));
    const ofReplay = await typed(['replay', '--limit', '-1', '--help'], { PORT: 'x', DATA_DIR });
    expect(ofReplay).toEqual(await typed(['replay', '--help']));
    expect(existsSync(DATA_DIR)).toBe(false);
  });
});

describe('the command line refuses in one line, doing nothing,', () => {
  const others = NAMES.filter((name) => name !== 'copy');

  test.for(others)('an unknown option of %s', async (name) => {
    expectRefused(await typed([...complete(name), '--nosuch']), /--nosuch/);
    expectRefused(await typed([...complete(name), '-x']), /-x/);
  });

  test.for(others)('an argument too many of %s', async (name) => {
    expectRefused(await typed([...complete(name), 'more']), /too many/);
  });

  test('an option without its value, and a value that none is asked for', async () => {
    for (const option of COMMANDS.replay.filter((name) => !['--follow', '--table'].includes(name)))
      expectRefused(await typed(['replay', option]), RegExp(option));
    expectRefused(await typed(['plants', '--user', 'alice', '--at']), /--at/);
    expectRefused(await typed(['verify', '--json=yes']), /--json/);
  });

  test('what is missing', async () => {
    expectRefused(await typed(['plants']), /--user/);
    expectRefused(await typed(['backup']), /file/);
    expectRefused(await typed(['token']), /user/);
    expectRefused(await typed(['prove', '--user', 'alice']), /--user and --id/);
  });

  test('an unknown command or option', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expectRefused(await typed(['paint'], { DATA_DIR }), /paint.* replay/);
    expectRefused(await typed(['Replay'], { DATA_DIR }), /Replay/);
    expectRefused(await typed(['--nosuch'], { DATA_DIR }), /--nosuch/);
    expectRefused(await typed(['replay', '--nosuch'], { DATA_DIR }), /--nosuch/);
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  const SECRET = 'Hush-7.3';
  const URL = `esdb://admin:${SECRET}@127.0.0.1:1?tls=false`;

  test.for([
    ['without an option', ['copy', URL]],
    ['behind options that are complete', ['copy', '--from', './data', '--to', './other', URL]],
    ['behind a mistyped option', ['copy', '--form', URL, '--to', './data']],
    ['joined to a mistyped option', ['copy', `--form=${URL}`, '--to', './data']],
    ['joined to a short option', ['copy', `-f${URL}`]],
    ['joined to an option of no value', ['copy', `--help=${URL}`]],
    ['behind two dashes', ['copy', '--', '--from', URL]],
    ['with a scheme that is mistyped', ['copy', `--from=esbd://admin:${SECRET}@host`, '--to', './data']],
    ['before the command', ['--from', URL, '--to', './data', 'copy']],
    ['joined to an option before the command', [`--from=${URL}`, '--to=./data', 'copy']],
    ['instead of the command', [URL, './data']],
    ['behind a mistyped command', ['copyy', `--from=${URL}`, '--to', './data']],
    ['behind another command', ['replay', `--from=${URL}`]],
    ['behind another command, without an option', ['verify', URL]],
  ])('a password for copy that is typed %s, and does not repeat it', async ([, args]) => {
    const refused = await typed(args as string[]);
    expectRefused(refused, /./);
    expect(refused.stderr).not.toContain(SECRET);
  });
});

describe('a bad configuration', () => {
  const BAD = { PORT: 'x', HOST: 'a b', EVENT_SOURCE: 'no uri' };
  const expected = {
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^the configuration cannot be used:\n {2}HOST [^\n]+\n {2}PORT [^\n]+\n {2}EVENT_SOURCE [^\n]+\n$/,
    ),
  };

  test.for(['token', 'replay', 'plants', 'verify', 'prove', 'rebuild', 'backup'])(
    'is named with all its faults by %s, which makes no data directory',
    async (name) => {
      const DATA_DIR = join(tempDir(), 'data');
      expect(await typed(complete(name), { DATA_DIR, ...BAD })).toEqual(expected);
      expect(existsSync(DATA_DIR)).toBe(false);
    },
  );

  test('is nothing to check-proof', async () => {
    expectRefused(await typed(['check-proof'], BAD), /proof/);
  });
});

describe('a command that reads', () => {
  const reading = ['replay', 'plants', 'verify', 'prove', 'backup'];

  test.for([...reading, 'rebuild'])('makes no data directory where there is none: %s', async (name) => {
    const DATA_DIR = join(tempDir(), 'data');
    expectRefused(await typed(complete(name), { DATA_DIR }), RegExp(join(DATA_DIR, 'log.db')));
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  test('makes none beside EventStoreDB either, and writes nothing there', async () => {
    const double = await startDouble();
    double.write('plant-alice/1', {
      id: '00000000-0000-4000-8000-000000000001',
      type: 'PlantCreated',
      data: { id: '1', user: 'alice', name: 'Fern' },
      metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' },
    });
    const env = { DATA_DIR: join(tempDir(), 'data'), EVENTSTOREDB_URL: double.url };
    for (const name of reading.filter((name) => name !== 'backup'))
      expect(await typed(complete(name), env)).toMatchObject({ code: 0, stderr: '' });
    expect(existsSync(env.DATA_DIR)).toBe(false);
    expect(double.log.all).toHaveLength(1);
  });
});
