import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { logWith, plantOf, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { VIEWS } from '../../src/views.ts';
import { runCli, withoutProgress } from '../support/cli.ts';
import { MAIN, NODE, type Process, run, start } from '../support/process.ts';
import { startService } from '../support/service.ts';
import { CTRL_C, hasTerminal, onTerminal } from '../support/terminal.ts';
import { verifyDir } from '../support/verifyDir.ts';

const REBUILD = [NODE, MAIN, 'rebuild'];
const PLANTS = 20_000;
/** The checkpoint of the old view, which distinguishes it from the new view. */
const OLD = 100;

const viewIn = (dir: string): string => join(dir, 'view.db');
const rebuilt = (events: number) => ({
  code: 0,
  stdout: '',
  stderr: Object.keys(VIEWS)
    .map((name) => `rebuilt the view ${name} from ${events} events\n`)
    .join(''),
});

/** Expects that the next server lists this number of plants. */
async function expectListed(env: Record<string, string>, user: string, plants: number): Promise<void> {
  const service = await startService(env);
  await expect.poll(async () => (await service.as(user).list()).length).toBe(plants);
  await service.close();
}

/** A log with all plants, and a view of the first of them. */
async function dirWithOldView(): Promise<string> {
  const dir = logWith({ events: OLD });
  await expectListed({ DATA_DIR: dir }, 'bob', OLD / 2);
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
  // Until at least one rebuild was killed before its end, on a machine of any speed.
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
    for (const user of ['alice', 'bob']) await expectListed({ DATA_DIR: dir }, user, PLANTS / 2);
  }
  expect(withoutProgress(await run({ command: REBUILD, env: { DATA_DIR: dir } }))).toMatchObject(
    rebuilt(PLANTS),
  );
  expect(readdirSync(dir).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
  expect(await verifyDir(dir)).toMatchObject({ view: BigInt(PLANTS), problems: [] });
});

const INTERRUPTIONS: [string, string[], (rebuilding: Process) => unknown, object][] = [
  ['a signal', REBUILD, ({ pid }) => process.kill(pid, 'SIGTERM'), { code: null, signal: 'SIGTERM' }],
  ['Ctrl-C', onTerminal(REBUILD), ({ stdin }) => stdin.write(CTRL_C), { code: 128 + 2, signal: null }],
];
test.each(INTERRUPTIONS.slice(0, hasTerminal ? 2 : 1))(
  'a rebuild stopped by %s keeps the old view, and prints only its progress',
  async (_, command, interrupt, ended) => {
    const server = await startFakeServer();
    const dir = tempDir();
    const env = { DATA_DIR: dir, EVENTSTOREDB_URL: server.url };
    const write = () =>
      writeTo(
        server,
        ...Array.from({ length: OLD }, (_, i) => plantOf('alice', server.log.all.length + i, 'Fern')),
      );
    write();
    await expectListed(env, 'alice', OLD);
    write();
    server.holdAfter(1.5 * OLD); // no rebuild completes before the interruption
    const names = readdirSync(dir).sort();
    const view = readFileSync(viewIn(dir));
    const rebuilding = start({ command, env });
    await expect.poll(() => readdirSync(dir)).toContain('view.db.new');
    interrupt(rebuilding);
    expect(await rebuilding.ended).toEqual(ended);
    expect(rebuilding.stdout() + rebuilding.stderr()).not.toMatch(/rebuilt|^\s+at /m);
    expect(readFileSync(viewIn(dir)).equals(view)).toBe(true);
    expect(readdirSync(dir).sort()).toEqual(names);
    server.holdAfter(Number.POSITIVE_INFINITY);
    await expectListed(env, 'alice', 2 * OLD);
    expect(withoutProgress(await runCli(['rebuild'], { ...env, MERKLE_TREE: 'off' }))).toEqual(
      rebuilt(2 * OLD),
    );
    expect(readdirSync(dir).sort()).toEqual(names);
  },
);
