import { cpSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withoutProgress } from '../commands/typed.ts';
import { expectOldViewAfter, REBUILD, rebuilt, viewIn } from '../support/interruptedRebuild.ts';
import { hasTerminal } from '../support/interruptions.ts';
import { logWith } from '../support/logs.ts';
import { run, start } from '../support/process.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { verifyDir } from '../support/verifyDir.ts';

const PLANTS = 20_000;
/** How far the old view has come, so that it can be told from a new one. */
const OLD = 100;

/** A log with all the plants, and a view of the first of them. */
async function dirWithOldView(): Promise<string> {
  const dir = logWith({ events: OLD });
  const service = await startService({ DATA_DIR: dir });
  await expect.poll(async () => (await service.as('bob').list()).length).toBe(OLD / 2);
  await service.close();
  return logWith({ dir, events: PLANTS - OLD, after: OLD });
}

/** How long each lives once it has begun to build, in milliseconds: the same in every run. */
const LIVES = [0, ...fc.sample(fc.noBias(fc.integer({ min: 0, max: 300 })), { numRuns: 4, seed: 2026 })];

test('a rebuild that is killed at random moments leaves the old view or the new one, and the next server answers in full', async () => {
  const [original, dir] = [await dirWithOldView(), tempDir()];
  let olds = 0;
  // Until it has been killed in the middle at least once, however slow this process is.
  for (let i = 0; i < LIVES.length || olds === 0; i++) {
    for (const name of readdirSync(original)) cpSync(join(original, name), join(dir, name));
    const rebuilding = start({ command: REBUILD, env: { DATA_DIR: dir } });
    let isOver = false;
    void rebuilding.ended.then(() => {
      isOver = true;
    });
    while (!isOver && !existsSync(`${viewIn(dir)}.new`)) await pause(1);
    await pause(LIVES[i] ?? 0);
    await rebuilding.kill();
    const { view, faults } = await verifyDir(dir);
    expect(faults).toEqual([]);
    expect([BigInt(OLD), BigInt(PLANTS)]).toContain(view);
    if (view === BigInt(OLD)) olds++;
    const service = await startService({ DATA_DIR: dir });
    for (const user of ['alice', 'bob'])
      await expect.poll(async () => (await service.as(user).list()).length).toBe(PLANTS / 2);
    await service.close();
  }
  expect(withoutProgress(await run({ command: REBUILD, env: { DATA_DIR: dir } }))).toEqual({
    ...rebuilt(PLANTS),
    signal: null,
  });
  expect(readdirSync(dir).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
  expect(await verifyDir(dir)).toMatchObject({ view: BigInt(PLANTS), faults: [] });
});

test('rebuilds that are ended by a signal, by Ctrl-C on a terminal and by a kill leave the old view, from which the next server goes on', () =>
  expectOldViewAfter('SIGTERM', ...(hasTerminal ? ['Ctrl-C' as const] : []), 'SIGKILL'));
