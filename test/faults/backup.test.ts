import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli } from '../support/cli.ts';
import { canMount, smallDisk } from '../support/disk.ts';
import { logWith, rowsIn } from '../support/logs.ts';
import { canRun, MAIN, NODE, type Process, run, start } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

/**
 * Starts a backup of a log to `copy.db` in its own directory, and interrupts it `after` milliseconds after it
 * has created its draft. If it completes before, another one is started and interrupted after half of that time.
 */
async function interruptBackup(dir: string, interrupt: (copying: Process) => void, after = 0) {
  for (let lifetime = after; ; lifetime = Math.floor(lifetime / 2)) {
    const place = tempDir();
    const file = join(place, 'copy.db');
    const copying = start({ command: [NODE, MAIN, 'backup', file], env: { DATA_DIR: dir } });
    let isOver = false;
    void copying.ended.then(() => {
      isOver = true;
    });
    const hasStarted = (): boolean => readdirSync(place).some((name) => sizeOf(join(place, name)) > 0);
    while (!isOver && !hasStarted()) await pause(1);
    await pause(lifetime);
    if (!isOver) interrupt(copying);
    const ended = { ...(await copying.ended), stdout: copying.stdout(), stderr: copying.stderr() };
    if (!existsSync(file)) return { ...ended, place };
    if (ended.signal === null) {
      expect(ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+:[\da-f]{64}\n$/) });
      expect(readdirSync(place)).toEqual(['copy.db']);
    }
  }
}

/** Bytes; 0 if the file was removed meanwhile. */
const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

describe('npm run backup that is interrupted', () => {
  const EVENTS = 30_000;
  /** The lifetime of each after its file exists, in milliseconds; the same in every run. */
  const LIFETIMES_MS = [
    0,
    ...fc.sample(fc.noBias(fc.integer({ min: 0, max: 1_000 })), { numRuns: 3, seed: 2026 }),
  ];

  test.for(['SIGINT', 'SIGTERM'] as const)('by %s at random moments leaves no file', async (signal) => {
    const dir = logWith({ events: EVENTS });
    for (const lifetime of LIFETIMES_MS) {
      const { place, ...ended } = await interruptBackup(
        dir,
        ({ pid }) => process.kill(pid, signal),
        lifetime,
      );
      expect(ended).toEqual({ code: null, signal, stdout: '', stderr: '' });
      expect(readdirSync(place)).toEqual([]);
    }
  });

  test('by a kill at random moments leaves no backup; the next backup works', async () => {
    const dir = logWith({ events: EVENTS });
    for (const lifetime of LIFETIMES_MS) {
      const { place } = await interruptBackup(dir, ({ kill }) => void kill(), lifetime);
      const rest = readdirSync(place);
      expect(rest).toEqual([expect.stringMatching(/^copy\.db\.[\da-f-]{36}\.partial$/)]);
      const file = join(place, 'copy.db');
      expect(await runCli(['backup', file], { DATA_DIR: dir })).toMatchObject({ code: 0 });
      expect(readdirSync(place)).toEqual(['copy.db', ...rest]);
      expect(rowsIn(file)).toHaveLength(EVENTS);
    }
  });

  test.runIf(canMount)('by a full disk leaves no file', async () => {
    const disk = await smallDisk();
    const command = [...disk.command, 'backup', join(dirname(disk.dir), 'copy.db')];
    expectRefused(await run({ command, env: { DATA_DIR: logWith({ events: EVENTS }) } }), /full/);
    expect(readdirSync(dirname(disk.visiblePath))).toEqual([]);
  });
});

describe('npm run backup on a file system', () => {
  /** The start of a command whose system calls of these names fail. */
  const refusing = (calls: string): string[] => [
    ...['strace', '-f', '--seccomp-bpf', '-o', '/dev/null'],
    ...['-e', `trace=/^(${calls})`, '-e', `inject=/^(${calls}):error=EPERM`],
  ];
  const canInject = canRun('a file system without hard links', [...refusing('link'), 'true']);

  async function backup(calls: string, onlyOnDirectory = false) {
    const dir = logWith({ events: 3 });
    const place = tempDir();
    const file = join(place, 'copy.db');
    const strace = [...refusing(calls), ...(onlyOnDirectory ? ['-P', place] : [])];
    const command = [...strace, NODE, MAIN, 'backup', file];
    return { ...(await run({ command, env: { DATA_DIR: dir } })), dir, place, file };
  }

  test.runIf(canInject)('without hard links makes the copy', async () => {
    const { code, dir, place, file } = await backup('link');
    expect(code).toBe(0);
    expect(readdirSync(place)).toEqual(['copy.db']);
    expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
  });

  test.runIf(canInject).each([
    ['the copy cannot be renamed', 'link|rename', false, /rename/],
    ['its directory cannot be synced', 'fsync', true, /fsync/],
  ])('where %s leaves no file', async (_, calls, onlyOnDirectory, message) => {
    const { place, ...ended } = await backup(calls, onlyOnDirectory);
    expectRefused(ended, message);
    expect(readdirSync(place)).toEqual([]);
  });
});
