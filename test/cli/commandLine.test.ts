import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { expectRefused, failure, runCli, succeeded } from '../support/cli.ts';
import { ROOT } from '../support/process.ts';

/** All commands, with all their options. */
const COMMANDS = {
  token: '--expires --scope',
  copy: '--from --to',
  replay: '--after --user --id --type --since --until --limit --follow --table --end',
  verify: '--expect --signed --json',
  'log-key': '',
  prove: '--user --id --from',
  erase: '--yes',
  backup: '',
};
const NAMES = Object.keys(COMMANDS);

/** The arguments that each command requires. */
const NEEDED: Record<string, string[]> = {
  copy: ['--from', 'DIR', '--to', 'DIR'],
  prove: ['--user', 'alice', '--id', '1'],
  backup: ['copy.db'],
  token: ['alice'],
  erase: ['alice'],
};
const complete = (name: string): string[] => [name, ...(NEEDED[name] ?? [])];

describe('--help', () => {
  test.for(Object.entries(COMMANDS))(
    'of %s lists exactly its options, and its usage',
    async ([name, options]) => {
      const stdout = succeeded(await runCli([name, '--help']));
      expect(stdout).toContain(`Usage: bin/plant-store ${name}`);
      const listed = [...stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option);
      expect(listed.join(' ')).toBe(options);
      expect(stdout).not.toMatch(/%2B|\bURL\b|(?<!-)\b(after|until)\b[;.,]/);
      expect(succeeded(await runCli([name, '-h']))).toBe(stdout);
    },
  );

  test('lists exactly the commands', async () => {
    const stdout = succeeded(await runCli(['--help']));
    const listed = [...(stdout.split('Commands:')[1]?.matchAll(/^ {2}([a-z-]+)/gm) ?? [])].map(
      ([, name]) => name,
    );
    expect(listed).toEqual([...NAMES, 'help']);
  });
});

describe('the command line reports in one line, and does nothing, for', () => {
  test.for(NAMES)('an unknown option of %s', async (name) => {
    expectRefused(await runCli([...complete(name), '--nosuch']), /--nosuch/);
    expectRefused(await runCli([...complete(name), '-x']), /-x/);
  });

  test.for(NAMES)('an unexpected argument of %s', async (name) => {
    expectRefused(await runCli([...complete(name), 'more']), /too many/);
  });

  test('an option without its value, and a value for an option that takes none', async () => {
    for (const option of COMMANDS.replay
      .split(' ')
      .filter((name) => !['--follow', '--table', '--end'].includes(name)))
      expectRefused(await runCli(['replay', option]), RegExp(option));
    expectRefused(await runCli(['verify', '--json=yes']), /--json/);
    expectRefused(
      await runCli(['copy', '--from', 'a', '--from', 'b', '--to', 'c']),
      /--from must be given once/,
    );
  });

  test('a missing argument', async () => {
    expectRefused(await runCli(['copy', '--from', './data']), /--to/);
    expectRefused(await runCli(['copy', '--to', './data']), /--from/);
    expectRefused(await runCli(['backup']), /file/);
    expectRefused(await runCli(['token']), /user/);
    expectRefused(await runCli(['prove', '--user', 'alice']), /--user and --id/);
  });

  test('an unknown command or option', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    expectRefused(await runCli(['xxxx'], { DATA_DIR }), /'xxxx'; the commands are .*replay/);
    expectRefused(await runCli(['replya'], { DATA_DIR }), /'replya'; did you mean replay\?/);
    expectRefused(await runCli(['--nosuch'], { DATA_DIR }), /--nosuch/);
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  const SECRET = 'Hush-7.3';
  const URL = `esdb://admin:${SECRET}@127.0.0.1:1?tls=false`;

  test.for([
    ['without an option', ['copy', URL]],
    ['behind a mistyped option', ['copy', '--form', URL, '--to', './data']],
    ['joined to an option without a value', ['copy', `--help=${URL}`]],
    ['joined to an unknown letter', ['copy', '--from', 'a', '--to', 'b', `-p${SECRET}`]],
    ['with quotes, joined to a mistyped option', ['copy', `-x'=esdb://admin:'${SECRET}'@host`]],
    ['joined to an option before the command', [`--from=${URL}`, '--to=./data', 'copy']],
    ['instead of the command', [URL, './data']],
    ['behind another command', ['replay', `--from=${URL}`]],
  ])('a password %s, and does not print it', async ([, args]) => {
    const refused = await runCli(args as string[]);
    expectRefused(refused, /./);
    expect(refused.stderr).not.toContain('Hush');
  });
});

test.each([
  [['tokn', 'alice'], "unknown command 'tokn'; did you mean token?"],
  [['verify', '--expet', 'Hush-7.3'], "unknown option '--expet'; did you mean --expect?"],
  [['verify', '--expet=Hush-7.3'], "unknown option '--expet…'"],
  [['verify', '--expet\n(Did you mean Hush-7.3?)'], "unknown option '--expet…'"],
])('for %j, the command line suggests a name of its own, and prints no value', async (args, message) => {
  expect(await runCli(args)).toEqual(failure(`error: ${message}`));
});

test('--version prints the version of package.json', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect(succeeded(await runCli(['--version']))).toBe(`${version}\n`);
});

describe('an invalid configuration', () => {
  const BAD = { PORT: 'x', HOST: 'a b', EVENT_SOURCE: 'no uri' };
  const PROBLEMS = /^invalid configuration:\n {2}HOST .+\n {2}PORT .+\n {2}EVENT_SOURCE .+\n$/;

  test('is reported with all its problems by a command, which creates no data directory', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const refused = await runCli(['token', 'alice'], { DATA_DIR, ...BAD });
    expect(refused).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(PROBLEMS) });
    expect(existsSync(DATA_DIR)).toBe(false);
  });
});

test.for(['replay', 'replay --follow --table', 'verify', 'backup copy.db'])(
  'a command that reads creates no log: %s',
  async (command) => {
    const [empty, missing] = [tempDir(), join(tempDir(), 'data')];
    for (const DATA_DIR of [empty, missing])
      expectRefused(
        await runCli(command.split(' '), { DATA_DIR }),
        RegExp(`no log ${join(DATA_DIR, 'log.db')}`),
      );
    expect(readdirSync(empty)).toEqual([]);
    for (const file of [missing, 'copy.db']) expect(existsSync(file)).toBe(false);
  },
);
