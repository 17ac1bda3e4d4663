import { copyFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { logWith, rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli } from '../support/cli.ts';
import { canMount, smallDisk } from '../support/disk.ts';
import { canRun, MAIN, NODE, type Process, run, start } from '../support/process.ts';

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

describe('backup that is interrupted', () => {
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

  test('by a kill at random moments leaves no backup; the next backup removes the draft', async () => {
    const dir = logWith({ events: EVENTS });
    for (const lifetime of LIFETIMES_MS) {
      const { place } = await interruptBackup(dir, ({ kill }) => void kill(), lifetime);
      expect(readdirSync(place)).toEqual(['copy.db.partial']);
      const file = join(place, 'copy.db');
      expect(await runCli(['backup', file], { DATA_DIR: dir })).toMatchObject({ code: 0 });
      expect(readdirSync(place)).toEqual(['copy.db']);
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

describe('an earlier backup', () => {
  const [OLD, NEW] = [1_000, 30_000];
  const LIFETIMES_MS = [
    0,
    ...fc.sample(fc.noBias(fc.integer({ min: 0, max: 1_000 })), { numRuns: 5, seed: 2026 }),
  ];

  /** A log, and a backup of its first events. */
  async function behind(place: string) {
    const dir = logWith({ events: OLD });
    const file = join(place, 'copy.db');
    expect(await runCli(['backup', file], { DATA_DIR: dir })).toMatchObject({ code: 0 });
    logWith({ dir, events: NEW, after: OLD });
    return { dir, file };
  }

  test.for(['SIGINT', 'SIGKILL'] as const)(
    'is as it was, or replaced, when %s ends the command at random moments',
    async (signal) => {
      for (const lifetime of LIFETIMES_MS) {
        const { dir, file } = await behind(tempDir());
        const before = readFileSync(file);
        const copying = start({ command: [NODE, MAIN, 'backup', file], env: { DATA_DIR: dir } });
        let isOver = false;
        void copying.ended.then(() => {
          isOver = true;
        });
        while (!isOver && readdirSync(dirname(file)).length === 1) await pause(1);
        await pause(lifetime);
        if (!isOver) process.kill(copying.pid, signal);
        await copying.ended;
        if (!readFileSync(file).equals(before)) expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
        expect(await runCli(['backup', file], { DATA_DIR: dir })).toMatchObject({ code: 0 });
        expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
      }
    },
  );

  test.runIf(canMount)('on a full disk is not changed', async () => {
    const disk = await smallDisk();
    const [inside, outside] = [dirname(disk.dir), dirname(disk.visiblePath)];
    const { dir, file } = await behind(tempDir());
    copyFileSync(file, join(outside, 'copy.db'));
    logWith({ dir, events: 2 * NEW, after: OLD + NEW });
    const command = [...disk.command, 'backup', join(inside, 'copy.db')];
    expectRefused(await run({ command, env: { DATA_DIR: dir } }), /full/);
    expect(readdirSync(outside)).toEqual(['copy.db']);
    expect(readFileSync(join(outside, 'copy.db')).equals(readFileSync(file))).toBe(true);
  });
});

describe('backup on a file system', () => {
  /** The start of a command whose system calls of these names fail. */
  const refusing = (calls: string, error: string): string[] => [
    ...['strace', '-f', '--seccomp-bpf', '-o', '/dev/null'],
    ...['-e', `trace=/^(${calls})`, '-e', `inject=/^(${calls}):error=${error}`],
  ];
  const canInject = canRun('a failing rename', [...refusing('rename', 'EPERM'), 'true']);

  async function backup(calls: string, error: string, onlyOnDirectory = false) {
    const dir = logWith({ events: 3 });
    const place = tempDir();
    const file = join(place, 'copy.db');
    const strace = [...refusing(calls, error), ...(onlyOnDirectory ? ['-P', place] : [])];
    const command = [...strace, NODE, MAIN, 'backup', file];
    return { ...(await run({ command, env: { DATA_DIR: dir } })), dir, place, file };
  }

  test.runIf(canInject)('where the draft cannot be renamed leaves no file', async () => {
    const { place, dir, file, ...ended } = await backup('rename', 'EPERM');
    expectRefused(ended, /rename/);
    expect(readdirSync(place)).toEqual([]);
  });

  test.runIf(canInject)(
    'where the sync of its directory fails reports it, and leaves a whole backup',
    async () => {
      const { place, dir, file, ...ended } = await backup('fsync', 'EIO', true);
      expectRefused(ended, /fsync/);
      expect(readdirSync(place)).toEqual(['copy.db']);
      expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
    },
  );
});
