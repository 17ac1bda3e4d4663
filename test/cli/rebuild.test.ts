import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { appendTo, plantOf } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { VIEWS } from '../../src/views.ts';
import { failure, runCli, withoutProgress } from '../support/cli.ts';
import { createPlants, listsOf, PLANTS } from '../support/plants.ts';
import { startService } from '../support/service.ts';
import { usedDirectory } from '../support/usedDataDir.ts';
import { verifyDir } from '../support/verifyDir.ts';

type Env = Record<string, string>;

const rebuild = async (env: Env) => withoutProgress(await runCli(['rebuild'], env));

const rebuilt = (events: number) => ({
  code: 0,
  stdout: '',
  stderr: Object.keys(VIEWS)
    .map((name) => `rebuilt the view ${name} from ${events} events\n`)
    .join(''),
});

const viewIn = (dir: string): string => join(dir, 'view.db');

const LISTS = ['alice', 'bob'].map((user) =>
  PLANTS.filter(([owner]) => owner === user).map(([, , plant]) => plant),
);

const used = await usedDirectory(PLANTS);

/** The next server must accept the view, resume at its checkpoint, and list all plants. */
async function expectViewUsed(env: Env): Promise<void> {
  const service = await startService(env);
  expect(await listsOf(service)).toEqual(LISTS);
  expect(service.log().filter(({ msg }) => /rebuilding view|caught up/.test(msg))).toEqual([]);
  await service.close();
}

describe('rebuild', () => {
  test('builds an equal view in a new file', async () => {
    const dir = used.copy();
    const { ino } = statSync(viewIn(dir));
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(5));
    expect(await verifyDir(dir)).toMatchObject({ view: 5n, problems: [] });
    await expectViewUsed({ DATA_DIR: dir });
    expect(statSync(viewIn(dir)).ino).not.toBe(ino);
  });

  test('fails with one line while a server uses the directory, and keeps the view', async () => {
    const service = await startService();
    await createPlants(service);
    const before = readdirSync(service.dir).sort();
    const { ino } = statSync(viewIn(service.dir));
    expect(await rebuild({ DATA_DIR: service.dir })).toEqual(
      failure(`the data directory ${service.dir} is in use by another server`),
    );
    expect(readdirSync(service.dir).sort()).toEqual(before);
    expect(statSync(viewIn(service.dir)).ino).toBe(ino);
    expect(await listsOf(service)).toEqual(LISTS);
  });

  test('fails with one line if there is no log, and creates no file', async () => {
    const dir = tempDir();
    new PlantsByUser(viewIn(dir)).close();
    expect(await rebuild({ DATA_DIR: dir })).toEqual(failure(`there is no log ${join(dir, 'log.db')}`));
    expect(readdirSync(dir)).toEqual(['view.db']);
  });

  test('fails on an invalid PlantCreated and keeps the old view, unless SKIP_EVENTS has it', async () => {
    const dir = used.copy();
    const event = { ...plantOf('alice', 3, ''), data: { name: 5 } };
    appendTo(dir, event);
    const [before, names] = [readFileSync(viewIn(dir)), readdirSync(dir)];
    expect(await rebuild({ DATA_DIR: dir })).toEqual(
      failure(`event ${event.id} at position 6 is not a valid PlantCreated`),
    );
    expect(readFileSync(viewIn(dir)).equals(before)).toBe(true);
    expect(readdirSync(dir)).toEqual(names);
    const env = { DATA_DIR: dir, SKIP_EVENTS: event.id };
    expect(await rebuild(env)).toEqual(rebuilt(6));
    await expectViewUsed(env);
  });
});
