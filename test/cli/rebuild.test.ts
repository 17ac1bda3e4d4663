import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { VIEWS } from '../../projections/views.ts';
import { runCli, withoutProgress } from '../support/cli.ts';
import { appendTo, logWith, plantOf } from '../support/logs.ts';
import { type Plant, startService } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';
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

const PLANTS: [user: string, id: number, plant: Plant][] = [
  ['alice', 1, { name: 'Fern', tag: 'indoor' }],
  ['bob', 1, { name: '', tag: '' }],
  ['alice', 2, { name: 'unit \u001f, nul \0, line \u2028' }],
  ['bob', 2, { name: 'emoji 🌱👩‍🌾' }],
];

type Lists = [ofAlice: Plant[], ofBob: Plant[]];

async function listsOf({ as }: Pick<Awaited<ReturnType<typeof startService>>, 'as'>): Promise<Lists> {
  return [await as('alice').list(), await as('bob').list()];
}

const LISTS: Lists = [
  [PLANTS[0]?.[2] as Plant, PLANTS[2]?.[2] as Plant],
  [PLANTS[1]?.[2] as Plant, PLANTS[3]?.[2] as Plant],
];

const used = await usedDirectory(PLANTS);

/** The lists of the next server, which must accept the view and resume at its checkpoint. */
async function listsAfterStart(env: Env, position = '4'): Promise<Lists> {
  const service = await startService(env);
  const lists = await listsOf(service);
  const rebuilds = service.log().filter(({ msg }) => /rebuilding view|caught up/.test(msg));
  expect(rebuilds, `from ${position}`).toEqual([]);
  await service.close();
  return lists;
}

describe('npm run rebuild', () => {
  test('builds an equal view in a new file', async () => {
    const dir = used.copy();
    const { ino } = statSync(viewIn(dir));
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(4));
    expect(statSync(viewIn(dir)).ino).not.toBe(ino);
    expect(await verifyDir(dir)).toMatchObject({ view: 4n, problems: [] });
    expect(await listsAfterStart({ DATA_DIR: dir })).toEqual(LISTS);
  });

  test.for<[string, (dir: string) => void]>([
    ['is missing', (dir) => rmSync(viewIn(dir))],
    ['is garbage', (dir) => writeFileSync(viewIn(dir), Buffer.alloc(10_000, 'garbage'))],
  ])('builds the view if it %s', async ([, tamper]) => {
    const dir = used.copy();
    tamper(dir);
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(4));
    expect(await verifyDir(dir)).toMatchObject({ view: 4n, problems: [] });
    expect(await listsAfterStart({ DATA_DIR: dir })).toEqual(LISTS);
  });

  test('builds the view with all acknowledged plants if a server has not closed its files', async () => {
    const [running, DATA_DIR] = [await startService(), tempDir()];
    for (const [user, id, plant] of PLANTS)
      expect((await running.as(user).create(id, plant)).status).toBe(200);
    cpSync(running.dir, DATA_DIR, { recursive: true }); // the files if it were killed now
    expect(statSync(`${viewIn(DATA_DIR)}-wal`).size).toBeGreaterThan(0);
    expect(await rebuild({ DATA_DIR })).toEqual(rebuilt(4));
    expect(readdirSync(DATA_DIR).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
    expect(await verifyDir(DATA_DIR)).toMatchObject({ view: 4n, problems: [] });
    expect(await listsAfterStart({ DATA_DIR })).toEqual(LISTS);
  });

  test('builds the view of EventStoreDB', async () => {
    const { url: EVENTSTOREDB_URL } = await startFakeServer();
    const env = { EVENTSTOREDB_URL, DATA_DIR: tempDir() };
    const service = await startService(env);
    for (const [user, id, plant] of PLANTS)
      expect((await service.as(user).create(id, plant)).status).toBe(200);
    await service.close();
    rmSync(viewIn(env.DATA_DIR));
    expect(await rebuild(env)).toEqual(rebuilt(4));
    expect(await listsAfterStart(env)).toEqual(LISTS);
  });

  test('fails with one line while a server uses the directory, and keeps the view', async () => {
    const service = await startService();
    for (const [user, id, plant] of PLANTS) await service.as(user).create(id, plant);
    const before = readdirSync(service.dir).sort();
    const { ino } = statSync(viewIn(service.dir));
    expect(await rebuild({ DATA_DIR: service.dir })).toEqual({
      code: 1,
      stdout: '',
      stderr: `the data directory ${service.dir} is in use by another server\n`,
    });
    expect(readdirSync(service.dir).sort()).toEqual(before);
    expect(statSync(viewIn(service.dir)).ino).toBe(ino);
    expect(await listsOf(service)).toEqual(LISTS);
  });

  test('fails with one line if there is no log, and creates no file', async () => {
    const dir = tempDir();
    new PlantsByUser(viewIn(dir)).close();
    expect(await rebuild({ DATA_DIR: dir })).toEqual({
      code: 1,
      stdout: '',
      stderr: `there is no log ${join(dir, 'log.db')}\n`,
    });
    expect(readdirSync(dir)).toEqual(['view.db']);
  });

  test('fails on an invalid PlantCreated and keeps the old view, unless SKIP_EVENTS has it', async () => {
    const dir = used.copy();
    const event = { ...plantOf('alice', 3, ''), data: { name: 5 } };
    appendTo(dir, event);
    const [before, names] = [readFileSync(viewIn(dir)), readdirSync(dir)];
    expect(await rebuild({ DATA_DIR: dir })).toEqual({
      code: 1,
      stdout: '',
      stderr: `event ${event.id} at position 5 is not a valid PlantCreated\n`,
    });
    expect(readFileSync(viewIn(dir)).equals(before)).toBe(true);
    expect(readdirSync(dir)).toEqual(names);
    const env = { DATA_DIR: dir, SKIP_EVENTS: event.id };
    expect(await rebuild(env)).toEqual(rebuilt(5));
    expect(await listsAfterStart(env)).toEqual(LISTS);
  });

  test('prints its progress every two seconds without a terminal', async () => {
    const dir = logWith({ events: 2_000 });
    let now = 0;
    using _ = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1_000));
    const { code, stdout, stderr } = await runCli(['rebuild'], { DATA_DIR: dir });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr).toMatch(
      /^((rebuilding: \d+ events, \d+ %, \d+\/s, \d+ s left\n)+rebuilt the view \w+ from 2000 events\n)+$/,
    );
  });
});
