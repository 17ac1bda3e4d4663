import { appendTo, eventId, logWith, plantOf } from '@event-sourced/testing/logs';
import { emptyLog } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { eraseUser } from '../support/erasure.ts';
import { createPlants, PLANTS } from '../support/plants.ts';
import { type Plant, startService } from '../support/service.ts';

const USERS = ['alice', 'bob'];

const plants = (env: Record<string, string>, ...args: string[]) => runCli(['plants', ...args], env);
const printed = (stdout: string) => ({ code: 0, stderr: '', stdout });
const names = ({ stdout }: { stdout: string }): string[] => JSON.parse(stdout).map(({ name }: Plant) => name);

/** An event that occurred `id` seconds after noon. */
const created = (id: number, user: string, data: object = { id: `${id}`, user, name: `${id}` }) => ({
  ...plantOf(user, id, ''),
  data,
  metadata: metadataAt(`2026-03-01T12:00:0${id}.000Z`),
});

const metadataAt = (occurredAt: string) => ({ $correlationId: 'c', schemaVersion: 1, occurredAt });

test.for(['the embedded log', 'EventStoreDB'] as const)(
  'plants of %s prints for each position what GET /plants returned at it',
  async (store) => {
    const { env, writeOther } = await emptyLog(store);
    const service = await startService(env);
    const lists: { at: bigint; user: string; body: string }[] = [];
    const recordList = async (user: string): Promise<void> => {
      const response = await service.as(user).get();
      const at = BigInt(response.headers.get('log-position')?.split('.').at(-1) ?? '');
      lists.push({ at, user, body: await response.text() });
    };
    for (const plant of PLANTS) {
      writeOther();
      await createPlants(service, [plant]);
      for (const each of USERS) await recordList(each);
    }
    expect(new Set(lists.map(({ body }) => body)).size).toBe(PLANTS.length + 1);
    expect(lists[1]?.body).toBe('[]');
    const isEmbedded = store === 'the embedded log'; // each command on EventStoreDB starts a thread
    for (const { at, user, body } of isEmbedded ? lists : lists.slice(4, 5))
      expect(await plants(env, '--user', user, '--at', `${at}`)).toEqual(printed(`${body}\n`));
    for (const user of isEmbedded ? USERS : []) {
      const now = printed(`${await (await service.as(user).get()).text()}\n`);
      expect(await plants(env, '--user', user)).toEqual(now);
      expect(await plants(env, '--user', user, '--at', '0')).toEqual(printed('[]\n'));
    }
  },
);

/** Clocks are not monotonic: a later event may have an earlier time. */
const HAPPENED: [user: string, id: number, occurredAt: string][] = [
  ['alice', 1, '2026-03-01T12:00:05.000Z'],
  ['bob', 1, '2026-03-01T12:00:01.000Z'],
  ['alice', 2, '2026-03-01T12:00:03.000Z'],
  ['alice', 3, '2026-03-01T12:00:03.001Z'],
  ['bob', 2, '2026-03-01T12:00:09.000Z'],
  ['alice', 4, '2026-03-01T12:00:01.000Z'],
  ['bob', 3, '2026-03-01T12:00:02.000Z'],
];

test('plants --at a time prints in log order the plants whose events occurred by then', async () => {
  const events = HAPPENED.map(([user, id, occurredAt], i) => {
    return { ...plantOf(user, id, `${id}`), id: eventId(i + 1), metadata: metadataAt(occurredAt) };
  });
  const env = { DATA_DIR: appendTo(tempDir(), ...events) };
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

describe('plants', () => {
  test('-- --table prints the IDs, and what occurred when, and is safe to print', async () => {
    const DATA_DIR = appendTo(tempDir(), created(1, 'alice'), created(2, 'bob'), {
      ...created(3, 'alice'),
      data: { id: '3', user: 'alice', name: '\u202e' },
    });
    const table = succeeded(await plants({ DATA_DIR }, '--user', 'alice', '--table'));
    expect(table.split('\n').map((row) => row.trim().split(/ +/))).toEqual([
      ['id', 'time', 'plant'],
      ['1', '2026-03-01T12:00:01.000Z', '{"name":"1"}'],
      ['3', '2026-03-01T12:00:03.000Z', '{"name":"\\u{202e}"}'],
      [''],
    ]);
  });

  test('leaves erased plants out, and says that events were erased', async () => {
    const dir = appendTo(tempDir(), created(1, 'alice'), created(2, 'bob'));
    await eraseUser(dir, 'alice');
    appendTo(dir, created(3, 'alice'));
    const { code, stdout, stderr } = await plants({ DATA_DIR: dir }, '--user', 'alice');
    expect([code, stdout]).toEqual([0, '[{"name":"3"}]\n']);
    expect(stderr).toBe('1 events of the log were erased; plants of these events are not listed\n');
  });

  test('prints the same as GET /plants for an event with spaces in its JSON', async () => {
    const spaced = '{"id": "2", "user": "alice", "name": "Ivy"}';
    const dir = appendTo(tempDir(), created(1, 'alice'), { ...created(2, 'alice'), data: spaced });
    const { as } = await startService({ DATA_DIR: dir });
    const body = await (await as('alice').get()).text();
    expect(body).toBe('[{"name":"1"},{"name":"Ivy"}]');
    expect(await plants({ DATA_DIR: dir }, '--user', 'alice')).toEqual(printed(`${body}\n`));
  });

  test.for([500, 501])('ends for a log of %i events of another type', async (events) => {
    const all = await plants({ DATA_DIR: logWith({ events, type: 'Written' }) }, '--user', 'alice');
    expect(all).toEqual(printed('[]\n'));
  });

  describe('of a log with an invalid PlantCreated', () => {
    const nameless = created(3, 'alice', { id: '3', user: 'alice' });
    const logWithInvalidEvent = () => ({
      DATA_DIR: appendTo(tempDir(), created(1, 'alice'), created(2, 'bob'), nameless, created(4, 'alice')),
    });

    test('reports it if it is of this user', async () => {
      const env = logWithInvalidEvent();
      const invalid = RegExp(`event ${nameless.id} at position 3 `);
      for (const at of [[], ['--at', '3'], ['--at', '2026-03-01T12:00:03Z']])
        expectRefused(await plants(env, '--user', 'alice', ...at), invalid);
    });

    test('ignores it if it is later, or of another user', async () => {
      const env = logWithInvalidEvent();
      for (const at of ['2', '2026-03-01T12:00:02Z'])
        expect(names(await plants(env, '--user', 'alice', '--at', at))).toEqual(['1']);
      expect(names(await plants(env, '--user', 'bob'))).toEqual(['2']);
    });

    test('skips it if it is in SKIP_EVENTS', async () => {
      const env = { ...logWithInvalidEvent(), SKIP_EVENTS: nameless.id };
      expect(names(await plants(env, '--user', 'alice'))).toEqual(['1', '4']);
      const { as } = await startService(env);
      expect((await as('alice').list()).map(({ name }) => name)).toEqual(['1', '4']);
    });
  });
});

describe('plants reports in one line, and prints nothing else, for', () => {
  test('an unknown user', async () => {
    const env = { DATA_DIR: logWith({ events: 3 }) };
    for (const at of [[], ['--at', '1'], ['--at', '2026-03-01T12:00:00Z']])
      expectRefused(await plants(env, '--user', 'zed', ...at), /"zed"/);
    expectRefused(await plants({ DATA_DIR: logWith({ events: 0 }) }, '--user', 'zed'), /"zed"/);
  });

  const DATES = ['yesterday', '2026-03-01', '2026-03-01T12:00:00', '2026-02-30T12:00:00Z'];
  test.for<[what: string, option: string, values: string[], line: RegExp]>([
    ['an invalid user', '--user', ['', 'ali\nce', 'a'.repeat(256), 'a\ud800'], /--user /],
    ['two users', '--user=alice', ['--user=bob'], /--user /],
    ['a position beyond the end', '--at', ['4', '9223372036854775808'], /--at /],
    ['an invalid position', '--at', ['03', '-1', '1.0', 's.1', '1e0', ' 1', ''], /--at /],
    ['an invalid time', '--at', DATES, /--at .*RFC 3339/],
  ])('%s', async ([, option, values, line]) => {
    const env = { DATA_DIR: logWith({ events: 3 }) };
    const user = option === '--at' ? ['--user', 'alice'] : [];
    for (const value of values) expectRefused(await plants(env, ...user, option, value), line);
  });
});
