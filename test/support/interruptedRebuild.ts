import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { VIEWS } from '../../projections/views.ts';
import { runCli, withoutProgress } from './cli.ts';
import { type Interruption, interrupted } from './interruptions.ts';
import { plantOf, writeTo } from './logs.ts';
import { MAIN, NODE } from './process.ts';
import { startService } from './service.ts';
import { startFakeServer } from './stores.ts';
import { tempDir } from './tempDir.ts';

export const REBUILD = [NODE, MAIN, 'rebuild'];

/** The output of a completed rebuild. */
export const rebuilt = (events: number) => ({
  code: 0,
  stdout: '',
  stderr: Object.keys(VIEWS)
    .map((name) => `rebuilt the view ${name} from ${events} events\n`)
    .join(''),
});

export const viewIn = (dir: string): string => join(dir, 'view.db');

/** Expects that interrupted rebuilds keep the old view, from which the next server resumes. */
export async function expectOldViewAfter(...interruptions: Interruption[]): Promise<void> {
  const [OLD, ALL] = [100, 1_000];
  const plants = (first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, i) => plantOf('alice', first + i, `plant ${first + i}`));
  const listed = async (service: Awaited<ReturnType<typeof startService>>, plants: number) => {
    await expect.poll(async () => (await service.as('alice').list()).length).toBe(plants);
    await service.close();
  };
  const server = await startFakeServer();
  const dir = tempDir();
  const env = { DATA_DIR: dir, EVENTSTOREDB_URL: server.url };
  writeTo(server, ...plants(1, OLD));
  await listed(await startService(env), OLD);
  writeTo(server, ...plants(OLD + 1, ALL));
  server.holdAfter(ALL / 2); // no rebuild completes before the interruption
  const names = readdirSync(dir).sort();
  const view = readFileSync(viewIn(dir));
  for (const how of interruptions) {
    await interrupted(how, {
      command: REBUILD,
      env,
      started: () => expect.poll(() => readdirSync(dir)).toContain('view.db.new'),
      bar: /rebuilding .* events/,
      result: /rebuilt/,
    });
    expect(readFileSync(viewIn(dir)).equals(view)).toBe(true);
    if (how !== 'SIGKILL') expect(readdirSync(dir).sort()).toEqual(names);
  }
  server.holdAfter(Number.POSITIVE_INFINITY);
  await listed(await startService(env), ALL);
  expect(withoutProgress(await runCli(['rebuild'], { ...env, MERKLE_TREE: 'off' }))).toEqual(rebuilt(ALL));
  expect(readdirSync(dir).sort()).toEqual(names);
}
