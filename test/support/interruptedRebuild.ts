import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { typed, withoutProgress } from '../commands/typed.ts';
import { startDouble } from '../copy/logs.ts';
import { type Interruption, interrupted } from './interruptions.ts';
import { plantOf, writeTo } from './logs.ts';
import { MAIN, NODE } from './process.ts';
import { startService } from './service.ts';
import { tempDir } from './tempDir.ts';

export const REBUILD = [NODE, MAIN, 'rebuild'];

/** What a rebuild says that has come to its end. */
export const rebuilt = (events: number) => ({
  code: 0,
  stdout: '',
  stderr: `the view has been built anew from ${events} events\n`,
});

export const viewIn = (dir: string): string => join(dir, 'view.db');

/** Rebuilds that are interrupted leave the old view, from which the next server goes on. */
export async function expectOldViewAfter(...ways: Interruption[]): Promise<void> {
  const [OLD, ALL] = [100, 1_000];
  const plants = (first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, i) => plantOf('alice', first + i, `plant ${first + i}`));
  const listed = async (service: Awaited<ReturnType<typeof startService>>, plants: number) => {
    await expect.poll(async () => (await service.as('alice').list()).length).toBe(plants);
    await service.close();
  };
  const double = await startDouble();
  const dir = tempDir();
  const env = { DATA_DIR: dir, EVENTSTOREDB_URL: double.url };
  writeTo(double, ...plants(1, OLD));
  await listed(await startService(env), OLD);
  writeTo(double, ...plants(OLD + 1, ALL));
  double.holdAfter(ALL / 2); // no rebuild comes to its end before this process acts
  const names = readdirSync(dir).sort();
  const view = readFileSync(viewIn(dir));
  for (const how of ways) {
    await interrupted(how, {
      command: REBUILD,
      env,
      begun: () => expect.poll(() => readdirSync(dir)).toContain('view.db.new'),
      bar: /rebuilding .* events/,
      result: /anew/,
    });
    expect(readFileSync(viewIn(dir)).equals(view)).toBe(true);
    if (how !== 'SIGKILL') expect(readdirSync(dir).sort()).toEqual(names);
  }
  double.holdAfter(Number.POSITIVE_INFINITY);
  await listed(await startService(env), ALL);
  expect(withoutProgress(await typed(['rebuild'], env))).toEqual(rebuilt(ALL));
  expect(readdirSync(dir).sort()).toEqual(names);
}
