import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectRefused } from '../commands/typed.ts';
import { expectOnlyPartial, interruptBackup } from '../support/interruptedBackup.ts';
import { logWith } from '../support/logs.ts';
import { canRun, MAIN, NODE, run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

const BACKUP = [NODE, MAIN, 'backup'];

describe('npm run backup that does not come to its end', () => {
  const EVENTS = 30_000;
  /** How long each lives once there is something of it, in milliseconds: the same in every run. */
  const LIVES = [0, ...fc.sample(fc.noBias(fc.integer({ min: 0, max: 1_000 })), { numRuns: 3, seed: 2026 })];

  test.for(['SIGINT', 'SIGTERM'] as const)(
    'leaves nothing where %s ends it at random moments',
    async (signal) => {
      const dir = logWith({ events: EVENTS });
      for (const life of LIVES) {
        const { place, ...ended } = await interruptBackup(dir, ({ pid }) => process.kill(pid, signal), life);
        expect(ended).toEqual({ code: null, signal, stdout: '', stderr: '' });
        expect(readdirSync(place)).toEqual([]);
      }
    },
  );

  test('has made no file of that name where it is killed at random moments; the next one works', async () => {
    const dir = logWith({ events: EVENTS });
    for (const life of LIVES) {
      const { place } = await interruptBackup(dir, ({ kill }) => void kill(), life);
      await expectOnlyPartial(place, { dir, events: EVENTS });
    }
  });

  const isRoot = process.getuid?.() === 0;
  const namespace = ['unshare', ...(isRoot ? ['--mount'] : ['--map-root-user', '--mount'])];
  const ON_A_SMALL_DISK = 'mount -t tmpfs -o size=2m tmpfs "$0" && "$@"; code=$?; ls -A "$0"; exit $code';
  const canMount = canRun('a backup to a full disk', [
    ...namespace,
    'sh',
    '-c',
    ON_A_SMALL_DISK,
    '/mnt',
    'true',
  ]);

  test.runIf(canMount)('leaves nothing where the disk is full', async () => {
    const place = tempDir();
    const command = [...namespace, 'sh', '-c', ON_A_SMALL_DISK, place, ...BACKUP, join(place, 'copy.db')];
    expectRefused(await run({ command, env: { DATA_DIR: logWith({ events: 20_000 }) } }), /full/);
  });
});
