import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { describe, expect, test } from 'vitest';
import { canRun, MAIN, NODE, run, start } from '../support/process.ts';

// SQLite reports a read that fails with EIO as "database disk image is malformed".

/** The start of a command whose reads of a file fail, from a number of reads of SQLite on; `reads` of others fail at once. */
const failingReads = (file: string, from: number): string[] => [
  ...['strace', '-f', '--seccomp-bpf', '-o', '/dev/null', '-P', file, '-e', 'trace=pread64,read'],
  ...['-e', `inject=pread64:error=EIO:when=${from}+`, '-e', 'inject=read:error=EIO'],
];
const canInject = canRun('a failing disk', [...failingReads('/', 1), 'true']);

describe.skipIf(!canInject)('a log whose disk cannot be read', () => {
  const EVENTS = 20_000;
  /** More reads than a start needs, and fewer than the log has pages. */
  const START_READS = 100;

  test('while it is in use is reported as such, after SQLite reported damage', async () => {
    const dir = logWith({ events: EVENTS });
    const command = [...failingReads(join(dir, 'log.db'), START_READS), NODE, MAIN];
    const { printed, stdout } = start({ command, env: { DATA_DIR: dir } });
    await printed(/"the disk cannot read the log"/);
    expect(stdout()).toMatch(/"reason":"the log is damaged: [^"]+","msg":"log damaged; no more appends"/);
    expect(stdout()).toMatch(
      /"reason":"the disk cannot read [^"]+log\.db: EIO: [^"]+","msg":"the disk cannot read the log"/,
    );
  });

  test('at a start is named in its message', async () => {
    const dir = logWith({ events: EVENTS });
    const command = [...failingReads(join(dir, 'log.db'), 2), NODE, MAIN];
    const { code, stderr } = await run({ command, env: { DATA_DIR: dir } });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^cannot use the log [^\n]+: (disk I\/O error|the disk cannot read [^\n]+: EIO[^\n]+)\n$/,
    );
  });

  // `verify` and `backup` read on two threads.
  test.for(
    [100, 800].flatMap((from) =>
      [['verify'], ['backup', 'copy.db'], ['replay']].map((args) => ({ from, args })),
    ),
  )('is named by a command, from read $from on: $args', async ({ from, args }) => {
    const dir = logWith({ events: EVENTS });
    const command = [...failingReads(join(dir, 'log.db'), from), NODE, MAIN, ...args];
    const { code, stderr } = await run({ command, cwd: dir, env: { DATA_DIR: dir } });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^(disk I\/O error|the disk cannot read [^\n]+log\.db: EIO[^\n]+)\n$/);
  });
});
