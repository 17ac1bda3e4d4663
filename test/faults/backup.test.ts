import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectRefused } from '../support/cli.ts';
import { canMount, smallDisk } from '../support/disk.ts';
import { expectOnlyPartial, interruptBackup } from '../support/interruptedBackup.ts';
import { logWith } from '../support/logs.ts';
import { run } from '../support/process.ts';

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
      await expectOnlyPartial(place, { dir, events: EVENTS });
    }
  });

  test.runIf(canMount)('by a full disk leaves no file', async () => {
    const disk = await smallDisk();
    const command = [...disk.command, 'backup', join(dirname(disk.dir), 'copy.db')];
    expectRefused(await run({ command, env: { DATA_DIR: logWith({ events: EVENTS }) } }), /full/);
    expect(readdirSync(dirname(disk.visiblePath))).toEqual([]);
  });
});
