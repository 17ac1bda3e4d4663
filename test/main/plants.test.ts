import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { type EventStore, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { expectRefused, typed } from '../commands/typed.ts';
import { dirWith, openIn, startDouble } from '../copy/logs.ts';
import { MAIN, NODE, run } from '../support/process.ts';
import { type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const USERS = ['alice', 'bob'];

const GARDEN: [user: string, id: bigint, plant: Plant][] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['alice', 2n, { name: 'nul \0, quote ", line \u2028 \r\n' }],
  ['bob', 1n, { name: 'Oak' }],
  ['alice', -(2n ** 63n), { name: '', tag: '' }],
  ['bob', 2n ** 63n - 1n, { name: 'emoji 🌱👩‍🌾', tag: '\ufeff' }],
  ['bob', 2n, { name: 'Moss' }],
  ['alice', 3n, { name: 'Ivy' }],
];

const plants = (env: Record<string, string>, ...args: string[]) => typed(['plants', ...args], env);
const printed = (stdout: string) => ({ code: 0, stderr: '', stdout });
const names = ({ stdout }: { stdout: string }): string[] => JSON.parse(stdout).map(({ name }: Plant) => name);

const created = (id: number, user: string, more: Record<string, string> = { name: `${id}` }) => ({
  id: `00000000-0000-4000-8000-00000000000${id}`,
  type: 'PlantCreated',
  data: { id: `${id}`, user, ...more },
  metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: `2026-03-01T12:00:0${id}.000Z` },
});

const STORES = [
  {
    store: 'the embedded log',
    open: async () => {
      const DATA_DIR = tempDir();
      return { env: { DATA_DIR }, write: () => openIn(DATA_DIR), disturb: () => {} };
    },
  },
  {
    store: 'EventStoreDB',
    open: async () => {
      const { url, log } = await startDouble();
      return {
        env: { DATA_DIR: tempDir(), EVENTSTOREDB_URL: url },
        write: () => openEventStoreDb({ url, prefix: 'plant-', log: console }),
        disturb: () => void log.append('other-1'),
      };
    },
  },
];

describe.for(STORES)('npm run plants of $store', ({ open }) => {
  test('prints at each position what GET /plants answered there', async () => {
    const { env, disturb } = await open();
    const service = await startService(env);
    const answers: { at: bigint; user: string; body: string }[] = [];
    const answered = async (user: string): Promise<void> => {
      const answer = await service.as(user).get();
      const at = BigInt(answer.headers.get('log-position')?.split('.').at(-1) ?? '');
      answers.push({ at, user, body: await answer.text() });
    };
    for (const [user, id, plant] of GARDEN) {
      disturb();
      expect((await service.as(user).create(id, plant)).status).toBe(200);
      for (const each of USERS) await answered(each);
    }
    expect(new Set(answers.map(({ body }) => body)).size).toBe(GARDEN.length + 1);
    expect(answers[1]?.body).toBe('[]');
    for (const { at, user, body } of answers)
      expect(await plants(env, '--user', user, '--at', `${at}`)).toEqual(printed(`${body}\n`));
    for (const user of USERS) {
      const now = printed(`${await (await service.as(user).get()).text()}\n`);
      expect(await plants(env, '--user', user)).toEqual(now);
      expect(await plants(env, '--user', user, '--at', '0')).toEqual(printed('[]\n'));
    }
  });

  test('prints what there was between two events as after the first', async () => {
    const { env, write, disturb } = await open();
    const log = await write();
    const append = async (id: number, user: string) =>
      (await log.append(`plant-${user}/${id}`, created(id, user), NO_STREAM)).position;
    const first = await append(1, 'alice');
    disturb();
    const second = await append(2, 'bob');
    const third = await append(3, 'alice');
    for (const at of [first, (first + second) / 2n, second, third - 1n])
      expect(names(await plants(env, '--user', 'alice', '--at', `${at}`))).toEqual(['1']);
    await log.close();
  });
});

describe('npm run plants -- --at a time', () => {
  /** Clocks go back now and then: what is later in the log may have happened before. */
  const HAPPENED: [user: string, id: number, occurredAt: string][] = [
    ['alice', 1, '2026-03-01T12:00:05.000Z'],
    ['bob', 1, '2026-03-01T12:00:01.000Z'],
    ['alice', 2, '2026-03-01T12:00:03.000Z'],
    ['alice', 3, '2026-03-01T12:00:03.001Z'],
    ['bob', 2, '2026-03-01T12:00:09.000Z'],
    ['alice', 4, '2026-03-01T12:00:01.000Z'],
    ['bob', 3, '2026-03-01T12:00:02.000Z'],
  ];

  async function dirWithTimes(): Promise<string> {
    const dir = tempDir();
    const log = await openIn(dir);
    for (const [user, id, occurredAt] of HAPPENED) {
      const event = created(id, user);
      const metadata = { ...event.metadata, occurredAt };
      await log.append(`plant-${user}/${id}`, { ...event, id: `${user}${id}`, metadata }, NO_STREAM);
    }
    return dir;
  }

  test('prints in log order what had happened by then, by the account of the events', async () => {
    const env = { DATA_DIR: await dirWithTimes() };
    const times = HAPPENED.map(([, , occurredAt]) => Date.parse(occurredAt));
    const points = new Set(times.flatMap((time) => [time - 1, time, time + 1]));
    for (const point of points) {
      for (const user of USERS) {
        const at = new Date(point).toISOString();
        const expected = HAPPENED.filter(([of, , then]) => of === user && Date.parse(then) <= point);
        expect({ at, plants: names(await plants(env, '--user', user, '--at', at)) }).toEqual({
          at,
          plants: expected.map(([, id]) => `${id}`),
        });
      }
    }
  });

  test.for([
    ['in another zone', '2026-03-01T14:00:03+02:00'],
    ['in small letters', '2026-03-01t12:00:03z'],
    ['to the last digit', '2026-03-01T12:00:03.000000Z'],
  ] as const)('reads a time written %s', async ([, at]) => {
    const env = { DATA_DIR: await dirWithTimes() };
    expect(names(await plants(env, '--user', 'alice', '--at', at))).toEqual(['2', '4']);
  });

  test('prints nothing in a list for somebody who had none yet', async () => {
    const env = { DATA_DIR: await dirWithTimes() };
    expect(await plants(env, '--user', 'bob', '--at', '2025-01-01T00:00:00Z')).toEqual(printed('[]\n'));
  });
});

describe('npm run plants', () => {
  async function write(log: EventStore, ...written: ReturnType<typeof created>[]): Promise<void> {
    for (const event of written)
      await log.append(`plant-${event.data.user}/${event.data.id}`, event, NO_STREAM);
  }

  test('prints as a process what it prints, and leaves quietly a reader who wants no more', async () => {
    const dir = tempDir();
    await write(await openIn(dir), created(1, 'alice'), created(2, 'bob'), created(3, 'alice'));
    const [whole, refused, cut] = await Promise.all([
      run({
        command: ['npm', 'run', '-s', 'plants', '--', '--user', 'alice', '--at', '2'],
        env: { DATA_DIR: dir },
      }),
      run({ command: [NODE, MAIN, 'plants', '--user', 'zed'], env: { DATA_DIR: dir } }),
      run({
        command: [
          'bash',
          '-c',
          'set -o pipefail; "$@" | true',
          'bash',
          NODE,
          MAIN,
          'plants',
          '--user',
          'bob',
        ],
        env: { DATA_DIR: dir },
      }),
    ]);
    expect(whole).toEqual({ ...printed('[{"name":"1"}]\n'), signal: null });
    expectRefused(refused, /"zed"/);
    expect(cut).toEqual({ ...printed(''), signal: null });
  });

  test('prints what GET /plants shows of an event whose JSON somebody else has spaced', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    await write(log, created(1, 'alice'));
    await log.close();
    const db = new DatabaseSync(join(dir, 'log.db'));
    db.exec(`
      INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
      SELECT 'e2', 'plant-alice/2', 0, type, '{"id": "2", "user": "alice", "name": "Ivy"}', metadata, recorded_at FROM events
    `);
    db.close();
    const { as } = await startService({ DATA_DIR: dir });
    const body = await (await as('alice').get()).text();
    expect(body).toBe('[{"name":"1"},{"name":"Ivy"}]');
    expect(await plants({ DATA_DIR: dir }, '--user', 'alice')).toEqual(printed(`${body}\n`));
  });

  test('reads as far as it has to, however long the log is', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    const userOf = (i: number) => (i % 2 === 0 ? 'alice' : 'bob');
    const append = (_: unknown, i: number) =>
      log.append(`plant-${userOf(i)}/${i}`, { ...created(i, userOf(i)), id: `e${i}` }, NO_STREAM);
    await Promise.all(Array.from({ length: 1_203 }, append));
    for (const at of [1, 500, 501, 1_100, 1_203]) {
      const ofAlice = Array.from({ length: Math.ceil(at / 2) }, (_, i) => `${2 * i}`);
      expect(names(await plants({ DATA_DIR: dir }, '--user', 'alice', '--at', `${at}`))).toEqual(ofAlice);
    }
  });

  test.for([500, 501])('ends on a log of %i events', { timeout: 10_000 }, async (events) => {
    const dir = await dirWith(events);
    const all = await plants({ DATA_DIR: dir }, '--user', 'u1');
    expect(all).toEqual(printed('[]\n')); // they are of another type
  });

  describe('of a log with a PlantCreated that is none', () => {
    async function dirWithFault(): Promise<string> {
      const dir = tempDir();
      const nameless = created(3, 'alice', {});
      await write(await openIn(dir), created(1, 'alice'), created(2, 'bob'), nameless, created(4, 'alice'));
      return dir;
    }

    test('names it where it is of this user', async () => {
      const env = { DATA_DIR: await dirWithFault() };
      const it = /event 00000000-0000-4000-8000-000000000003 at position 3 /;
      expectRefused(await plants(env, '--user', 'alice'), it);
      expectRefused(await plants(env, '--user', 'alice', '--at', '3'), it);
      expectRefused(await plants(env, '--user', 'alice', '--at', '2026-03-01T12:00:03Z'), it);
    });

    test('does not mind it where it came later, or is of another user', async () => {
      const env = { DATA_DIR: await dirWithFault() };
      expect(names(await plants(env, '--user', 'alice', '--at', '2'))).toEqual(['1']);
      expect(names(await plants(env, '--user', 'alice', '--at', '2026-03-01T12:00:02Z'))).toEqual(['1']);
      expect(names(await plants(env, '--user', 'bob'))).toEqual(['2']);
    });

    test('passes over it where SKIP_EVENTS says so', async () => {
      const env = { DATA_DIR: await dirWithFault(), SKIP_EVENTS: created(3, 'alice').id };
      expect(names(await plants(env, '--user', 'alice'))).toEqual(['1', '4']);
      const { as } = await startService(env);
      expect((await as('alice').list()).map(({ name }) => name)).toEqual(['1', '4']);
    });
  });
});

describe('npm run plants refuses in one line, printing nothing,', () => {
  test('a user whom nobody knows', async () => {
    const env = { DATA_DIR: await dirWith(3) };
    for (const at of [[], ['--at', '1'], ['--at', '2026-03-01T12:00:00Z']])
      expectRefused(await plants(env, '--user', 'zed', ...at), /"zed"/);
    expectRefused(await plants({ DATA_DIR: await dirWith(0) }, '--user', 'zed'), /"zed"/);
  });

  test('a user who can be none', async () => {
    const env = { DATA_DIR: await dirWith(3) };
    for (const user of ['', 'ali\nce', 'a'.repeat(256), 'a\ud800'])
      expectRefused(await plants(env, '--user', user), /--user /);
  });

  test('no user, and two', async () => {
    const env = { DATA_DIR: await dirWith(3) };
    expectRefused(await plants(env), /--user /);
    expectRefused(await plants(env, '--user', 'u1', '--user', 'u2'), /--user /);
  });

  test('a position that is none, or beyond the end', async () => {
    const env = { DATA_DIR: await dirWith(3) };
    for (const at of ['4', '9223372036854775808', '03', '-1', '1.0', 's.1', '1e0', ' 1', ''])
      expectRefused(await plants(env, '--user', 'u1', '--at', at), /--at /);
  });

  test('a time that is none', async () => {
    const env = { DATA_DIR: await dirWith(3) };
    const times = ['yesterday', '2026-03-01', '2026-03-01T12:00:00', '2026-02-30T12:00:00Z'];
    for (const at of times) expectRefused(await plants(env, '--user', 'u1', '--at', at), /--at .*RFC 3339/);
  });

  test('a log that is not there, or is none', async () => {
    const [missing, other] = [tempDir(), tempDir()];
    writeFileSync(join(other, 'log.db'), 'no SQLite');
    for (const dir of [missing, other])
      expectRefused(await plants({ DATA_DIR: dir }, '--user', 'u1'), RegExp(join(dir, 'log.db')));
  });

  test('an EventStoreDB that cannot be reached', { timeout: 15_000 }, async () => {
    const env = { DATA_DIR: tempDir(), EVENTSTOREDB_URL: 'esdb://127.0.0.1:1?tls=false' };
    const asked = await Promise.all([plants(env, '--user', 'u1', '--at', '1'), plants(env, '--user', 'u1')]);
    for (const refused of asked) expectRefused(refused, /EventStoreDB.*ECONNREFUSED/);
  });
});
