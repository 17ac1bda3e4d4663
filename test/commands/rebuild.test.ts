import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { startDouble } from '../copy/logs.ts';
import { appendTo, logWith, plantOf } from '../support/logs.ts';
import { type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { verifyDir } from '../support/verifyDir.ts';
import { typed, withoutProgress } from './typed.ts';
import { usedDirectory } from './usedDirectory.ts';

type Env = Record<string, string>;

const rebuild = async (env: Env) => withoutProgress(await typed(['rebuild'], env));

const rebuilt = (events: number) => ({
  code: 0,
  stdout: '',
  stderr: `the view has been built anew from ${events} events\n`,
});

const viewIn = (dir: string): string => join(dir, 'view.db');

const GARDEN: [user: string, id: number, plant: Plant][] = [
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
  [GARDEN[0]?.[2] as Plant, GARDEN[2]?.[2] as Plant],
  [GARDEN[1]?.[2] as Plant, GARDEN[3]?.[2] as Plant],
];

const used = await usedDirectory(GARDEN);

/** What the next server answers from the view, which it finds good: it begins where the view ends. */
async function answersOf(env: Env, position = '4'): Promise<Lists> {
  const service = await startService(env);
  const lists = await listsOf(service);
  const begun = service.log().filter(({ msg }) => /anew|caught up/.test(msg));
  expect(begun, `from ${position}`).toEqual([]);
  await service.close();
  return lists;
}

describe('npm run rebuild', () => {
  test('builds a view that answers the same, in a new file', async () => {
    const dir = used.copy();
    const { ino } = statSync(viewIn(dir));
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(4));
    expect(statSync(viewIn(dir)).ino).not.toBe(ino);
    expect(await verifyDir(dir)).toMatchObject({ view: 4n, faults: [] });
    expect(await answersOf({ DATA_DIR: dir })).toEqual(LISTS);
  });

  test.for<[string, (dir: string) => void]>([
    ['is missing', (dir) => rmSync(viewIn(dir))],
    ['is garbage', (dir) => writeFileSync(viewIn(dir), Buffer.alloc(10_000, 'garbage'))],
  ])('builds the view where it %s', async ([, tamper]) => {
    const dir = used.copy();
    tamper(dir);
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(4));
    expect(await verifyDir(dir)).toMatchObject({ view: 4n, faults: [] });
    expect(await answersOf({ DATA_DIR: dir })).toEqual(LISTS);
  });

  test('builds the view where a server has not closed its files, from what it has acknowledged', async () => {
    const [running, DATA_DIR] = [await startService(), tempDir()];
    for (const [user, id, plant] of GARDEN)
      expect((await running.as(user).create(id, plant)).status).toBe(200);
    cpSync(running.dir, DATA_DIR, { recursive: true }); // what there is where it is killed now
    expect(statSync(`${viewIn(DATA_DIR)}-wal`).size).toBeGreaterThan(0);
    expect(await rebuild({ DATA_DIR })).toEqual(rebuilt(4));
    expect(readdirSync(DATA_DIR).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
    expect(await verifyDir(DATA_DIR)).toMatchObject({ view: 4n, faults: [] });
    expect(await answersOf({ DATA_DIR })).toEqual(LISTS);
  });

  test('builds the view of EventStoreDB', async () => {
    const { url: EVENTSTOREDB_URL } = await startDouble();
    const env = { EVENTSTOREDB_URL, DATA_DIR: tempDir() };
    const service = await startService(env);
    for (const [user, id, plant] of GARDEN)
      expect((await service.as(user).create(id, plant)).status).toBe(200);
    await service.close();
    rmSync(viewIn(env.DATA_DIR));
    expect(await rebuild(env)).toEqual(rebuilt(4));
    expect(await answersOf(env)).toEqual(LISTS);
  });

  test('is refused, in one line, while a server holds the directory, whose view stays', async () => {
    const service = await startService();
    for (const [user, id, plant] of GARDEN) await service.as(user).create(id, plant);
    const before = readdirSync(service.dir).sort();
    const { ino } = statSync(viewIn(service.dir));
    expect(await rebuild({ DATA_DIR: service.dir })).toEqual({
      code: 1,
      stdout: '',
      stderr: `the data directory ${service.dir} cannot be used: another server is using it\n`,
    });
    expect(readdirSync(service.dir).sort()).toEqual(before);
    expect(statSync(viewIn(service.dir)).ino).toBe(ino);
    expect(await listsOf(service)).toEqual(LISTS);
  });

  test('is refused, in one line, where there is no log, and makes nothing', async () => {
    const dir = tempDir();
    new PlantsByUser(viewIn(dir)).close();
    expect(await rebuild({ DATA_DIR: dir })).toEqual({
      code: 1,
      stdout: '',
      stderr: `there is no log ${join(dir, 'log.db')}\n`,
    });
    expect(readdirSync(dir)).toEqual(['view.db']);
  });

  test('ends at a PlantCreated that is malformed, and the old view stays, unless SKIP_EVENTS names it', async () => {
    const dir = used.copy();
    const event = { ...plantOf('alice', 3, ''), data: { name: 5 } };
    appendTo(dir, event);
    const [before, names] = [readFileSync(viewIn(dir)), readdirSync(dir)];
    expect(await rebuild({ DATA_DIR: dir })).toEqual({
      code: 1,
      stdout: '',
      stderr: `event ${event.id} at position 5 is no valid PlantCreated\n`,
    });
    expect(readFileSync(viewIn(dir)).equals(before)).toBe(true);
    expect(readdirSync(dir)).toEqual(names);
    const env = { DATA_DIR: dir, SKIP_EVENTS: event.id };
    expect(await rebuild(env)).toEqual(rebuilt(5));
    expect(await answersOf(env)).toEqual(LISTS);
  });

  test('prints every two seconds how far it is, where there is no terminal', async () => {
    const dir = logWith({ events: 2_000 });
    let now = 0;
    using _ = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1_000));
    const { code, stdout, stderr } = await typed(['rebuild'], { DATA_DIR: dir });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr).toMatch(
      /^(rebuilding: \d+ events, \d+ %, \d+\/s, \d+ s left\n)+the view has been built anew from 2000 events\n$/,
    );
  });
});
