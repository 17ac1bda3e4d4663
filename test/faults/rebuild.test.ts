import { cpSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withoutProgress } from '../support/cli.ts';
import { expectOldViewAfter, REBUILD, rebuilt, viewIn } from '../support/interruptedRebuild.ts';
import { hasTerminal } from '../support/interruptions.ts';
import { logWith } from '../support/logs.ts';
import { run, start } from '../support/process.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { verifyDir } from '../support/verifyDir.ts';

const PLANTS = 20_000;
/** The checkpoint of the old view, which distinguishes it from a new one. */
const OLD = 100;

/** A log with all plants, and a view of the first of them. */
async function dirWithOldView(): Promise<string> {
  const dir = logWith({ events: OLD });
  const service = await startService({ DATA_DIR: dir });
  await expect.poll(async () => (await service.as('bob').list()).length).toBe(OLD / 2);
  await service.close();
  return logWith({ dir, events: PLANTS - OLD, after: OLD });
}

/** The lifetime of each after it starts to build, in milliseconds; the same in every run. */
const LIFETIMES_MS = [
  0,
  ...fc.sample(fc.noBias(fc.integer({ min: 0, max: 300 })), { numRuns: 4, seed: 2026 }),
];

test('a rebuild killed at random moments leaves the old or the new view, and the next server lists all plants', async () => {
  const [original, dir] = [await dirWithOldView(), tempDir()];
  let oldViews = 0;
  // Until at least one was killed before its end, however slow this process is.
  for (let i = 0; i < LIFETIMES_MS.length || oldViews === 0; i++) {
    for (const name of readdirSync(original)) cpSync(join(original, name), join(dir, name));
    const rebuilding = start({ command: REBUILD, env: { DATA_DIR: dir } });
    let isOver = false;
    void rebuilding.ended.then(() => {
      isOver = true;
    });
    while (!isOver && !existsSync(`${viewIn(dir)}.new`)) await pause(1);
    await pause(LIFETIMES_MS[i] ?? 0);
    await rebuilding.kill();
    const { view, problems } = await verifyDir(dir);
    expect(problems).toEqual([]);
    expect([BigInt(OLD), BigInt(PLANTS)]).toContain(view);
    if (view === BigInt(OLD)) oldViews++;
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
  expect(await verifyDir(dir)).toMatchObject({ view: BigInt(PLANTS), problems: [] });
});

test('rebuilds stopped by a signal, by Ctrl-C or by a kill keep the old view, from which the next server resumes', () =>
  expectOldViewAfter('SIGTERM', ...(hasTerminal ? ['Ctrl-C' as const] : []), 'SIGKILL'));
