import { describe, expect, test } from 'vitest';
import { expectRefused, runCommand, succeeded } from '../../../transparency-log/test/support/program.ts';

/** The arguments that each command requires, and the options that it may have. */
const COMMANDS = {
  'check-proof': [
    ['--key', 'VKEY'],
    ['--origin', '--expect', '--record', '--witness', '--quorum'],
  ],
  monitor: [
    ['--url', 'URL', '--key', 'VKEY', '--state', 'FILE'],
    [
      ...['--once', '--interval', '--events', '--all', '--timeout', '--stale-after', '--expect-growth'],
      ...['--known', '--origin', '--witness', '--quorum'],
    ],
  ],
} as const;

describe.each(Object.entries(COMMANDS))('%s', (name, [required, optional]) => {
  test('lists its options, and no others', async () => {
    const help = succeeded(await runCommand([name, '--help']));
    const options = [...help.matchAll(/^ {2}(?:-h, )?(--[\w-]+)/gm)].map(([, option]) => option);
    const names = required.filter((one) => one.startsWith('--'));
    expect(options.sort()).toEqual([...names, ...optional, '--help'].sort());
  });

  test('refuses unknown options, extra arguments and missing options in one line', async () => {
    const password = 'https://a:hunter2@log.example';
    for (const [args, line] of [
      [[...required, '--nosuch'], /--nosuch/],
      [[...required, `--ulr=${password}`], /^(?!.*hunter2).*--ulr/],
      [[...required, password], /^(?!.*hunter2).*too many/],
      [[...required, ...required.slice(0, 2)], /must be given once/],
      [[], RegExp(required[0])],
    ] as const)
      expectRefused(await runCommand([name, ...args]), line);
  });
});

test('an unknown command is refused in one line, which lists the commands', async () => {
  expectRefused(await runCommand(['proof']), /'proof'; the commands are check-proof, monitor/);
  expectRefused(await runCommand(['monitro']), /'monitro'; did you mean monitor\?/);
});
