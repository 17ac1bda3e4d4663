import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { type CopyProgress, copyLog } from '../../src/copy/copyLog.ts';
import {
  type EventStore,
  type NewEvent,
  NO_STREAM,
  type RecordedEvent,
} from '../../src/eventStore/eventStore.ts';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import { everything } from '../eventStore/contract.ts';
import { storePool } from '../support/storePool.ts';
import {
  appendMany,
  comparable,
  contents,
  named,
  openAsCommand,
  openedUntilFinished,
  openIn,
  refusal,
  restarting,
  startFakeServer,
} from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const pooled = storePool((url) => openAsCommand(url));

/** The ID of the event under test. */
const ID = '0f0e0d0c-0b0a-4908-8706-050403020100';

describe.each(['the embedded log', 'EventStoreDB'])('copying from %s', (source) => {
  const target = source === 'EventStoreDB' ? 'the embedded log' : 'EventStoreDB';

  test.each(['the embedded log', 'EventStoreDB'])(
    'to %s copies the same events in the same order, and the next time none',
    async (other) => {
      const { from, to } = await withPlants(source, other);
      expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 10 });
      const copied = await everything(to);
      expect(copied.map(comparable)).toEqual(await contents(from));
      expect(copied).toHaveLength(10);
      expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 0 });
      expect(await everything(to)).toEqual(copied);
    },
  );

  test('without events copies none', async () => {
    const [from, to] = [await opened(source), await opened(target)];
    expect(await copyLog({ from, to })).toEqual({ events: 0, copied: 0 });
  });

  test('loses no event between batches', async () => {
    const [from, to] = [await opened(source), await opened('the embedded log')];
    await appendMany(from, 520);
    expect(await copyLog({ from, to })).toEqual({ events: 520, copied: 520 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test('resumes after the last event of the target', async () => {
    const { from, to } = await withPlants(source, target);
    await appendEvents(to, (await contents(from)).slice(0, 4));
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 6 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test.each([
    ['another plant in it', 0],
    ['another plant after some of the same', 3],
  ])('rejects a target with %s, reports both positions and does not change it', async (_, same) => {
    const { from, to } = await withPlants(source, target);
    const events = await everything(from);
    await appendEvents(to, events.slice(0, same));
    const { position } = await to.append('plant-mallory/1', named('other'), NO_STREAM);
    const before = await everything(to);
    const places = `position ${events[same]?.position} of the source and ${position} of the target`;
    expect(await refusal(copyLog({ from, to }))).toContain(
      `the target has other events, and was not changed: ${places} differ in stream, `,
    );
    expect(await everything(to)).toEqual(before);
  });

  test('rejects a target with the same events and one more', async () => {
    const { from, to } = await withPlants(source, target);
    await appendEvents(to, await everything(from));
    const { position } = await to.append('plant-mallory/1', named('other'), NO_STREAM);
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the target has other events, and was not changed: the target has one more event, at position ${position}`,
    );
  });

  test('reports its progress: copying, then comparing', async () => {
    const { from, to } = await withPlants(source, target);
    const reported: CopyProgress[] = [];
    await copyLog({ from, to, onProgress: (progress) => reported.push(progress) });
    const positions = (await everything(from)).map(({ position }) => position);
    const end = positions.at(-1);
    const steps = (step: string) => positions.map((position, i) => ({ step, events: i + 1, position, end }));
    expect(reported).toEqual([...steps('copying'), ...steps('comparing')]);
  });
});

describe('the target', () => {
  test.each([
    ['id', { id: randomUUID() }],
    ['type', { type: 'PlantNamed' }],
    ['data', { data: { name: 'Fern', tag: '' } }],
    ['metadata', { metadata: {} }],
  ])('differs if an event has another %s', async (part, other) => {
    const [from, to] = [await opened('the embedded log'), await opened('the embedded log')];
    await from.append('plant-alice/1', { ...fern, id: ID }, NO_STREAM);
    await to.append('plant-alice/1', { ...fern, id: ID, ...other }, NO_STREAM);
    expect(await refusal(copyLog({ from, to }))).toMatch(new RegExp(`differ in ${part}$`));
  });

  test('may have events of other categories', async () => {
    const { from, to, fake } = await embeddedToFake();
    fake.write('invoice-1', { data: { due: true } });
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 10 });
  });

  test('with concurrent appends of another writer is reported', async () => {
    const { from, to, fake } = await embeddedToFake();
    const appendDirectly = ({ events }: CopyProgress) => {
      if (events === 4) fake.write('plant-mallory/1', { data: { name: 'other' } });
    };
    expect(await refusal(copyLog({ from, to, onProgress: appendDirectly }))).toMatch(
      /^the copy does not match the source: position 5 of the source and \d+ of the target differ in stream, /,
    );
  });

  test('with another event in the next stream is reported before the next append', async () => {
    const { from, to, fake } = await embeddedToFake();
    const next = (await everything(from))[4];
    const appendDirectly = ({ events }: CopyProgress) => {
      if (events === 4) fake.write(`${next?.stream}`, { data: { name: 'other' } });
    };
    expect(await refusal(copyLog({ from, to, onProgress: appendDirectly }))).toMatch(
      /^the event at position 5 of the source .* another program writes to the target/,
    );
    expect(await everything(to)).toHaveLength(5);
  });

  test('that stores different data is detected', async () => {
    const { from, to } = await withPlants();
    const append: EventStore['append'] = (stream, event, revision) =>
      to.append(stream, event.type === 'PlantWatered' ? { ...event, data: {} } : event, revision);
    expect(await refusal(copyLog({ from, to: { ...to, append } }))).toBe(
      'the copy does not match the source: position 4 of the source and 4 of the target differ in data',
    );
  });
});

describe('the source', () => {
  test('that grows during the copy is reported, and a second copy adds the rest', async () => {
    const { from, to } = await withPlants();
    const append: EventStore['append'] = async (stream, event, revision) => {
      const appended = await to.append(stream, event, revision);
      if (appended.position === 10n) await from.append('plant-late/1', fern, NO_STREAM);
      return appended;
    };
    expect(await refusal(copyLog({ from, to: { ...to, append } }))).toMatch(
      /^the source has grown meanwhile, at position 11: /,
    );
    expect(await copyLog({ from, to })).toEqual({ events: 11, copied: 1 });
  });

  test('that is closed meanwhile ends the copy', async () => {
    const [from, to] = [await opened('the embedded log'), await opened('the embedded log')];
    await appendMany(from, 520);
    const close = ({ events }: CopyProgress) => {
      if (events === 10) void from.close();
    };
    expect(await refusal(copyLog({ from, to, onProgress: close }))).toBe(
      'the source is unavailable: the log is closed',
    );
  });
});

describe('an event that cannot be copied exactly is reported, and no later one is copied:', () => {
  const NOT_AN_OBJECT = 'its data is not a JSON object';
  const NOT_NEXT =
    'its stream is not at the revision before it: another program writes to the target, or the source has lost earlier events of the stream';
  const DEEP = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
  test.each([
    ['text that is not JSON', { data: 'no JSON' }, NOT_AN_OBJECT],
    [
      'a number beyond 53 bits',
      { data: '{"a":9007199254740993}' },
      'its data has a number that may have lost digits',
    ],
    ['50 000 nested arrays', { metadata: DEEP }, 'its metadata is nested too deeply'],
    ['a stream without its earlier events', { revision: 3 }, NOT_NEXT],
  ])('%s, in the embedded log', async (_, part, reason) => {
    const dir = tempDir();
    const from = await openIn(dir);
    await from.append('plant-alice/1', fern, NO_STREAM);
    const row = { id: ID, stream: 'plant-alice/2', revision: 0, type: 'T', data: '{}' };
    insertRow(dir, { ...row, metadata: '{}', ...part });
    insertRow(dir, { ...row, id: randomUUID(), stream: 'plant-alice/3', metadata: '{}' });
    const again = await openIn(dir);
    const to = await opened('the embedded log');
    expect(await refusal(copyLog({ from: again, to }))).toBe(
      `the event at position 2 of the source cannot be copied: ${reason}`,
    );
    expect(await contents(to)).toEqual((await contents(from)).slice(0, 1));
  });

  const BINARY = { data: Buffer.of(0, 255), contentType: 'application/octet-stream' };
  const NOT_UNIQUE = 'the log rejected the event: UNIQUE constraint failed: events.id';
  test.each([
    ['binary data', BINARY, NOT_AN_OBJECT],
    ['no metadata', { metadata: undefined }, 'its metadata is not a JSON object'],
    ['the id of another event', { id: ID }, NOT_UNIQUE],
  ])('%s, in EventStoreDB', async (_, part, reason) => {
    const { server: fake, store: from } = await pooled();
    const to = await opened('the embedded log');
    const json = { data: { name: 'Fern' }, metadata: {} };
    fake.write('plant-alice/1', { ...json, id: ID });
    const { position } = fake.write('plant-alice/2', { ...json, ...part });
    fake.write('plant-alice/3', json);
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the event at position ${position} of the source cannot be copied: ${reason}`,
    );
    expect((await everything(to)).map(({ stream }) => stream)).toEqual(['plant-alice/1']);
  });

  test('an event that is too large for EventStoreDB', async () => {
    const { from, to } = await embeddedToFake();
    const { position } = await from.append('plant-alice/2', named('x'.repeat(1024 * 1024)), NO_STREAM);
    await from.append('plant-alice/3', named('after'), NO_STREAM);
    expect(await refusal(copyLog({ from, to }))).toContain(
      `the event at position ${position} of the source cannot be copied: EventStoreDB rejects this permanently`,
    );
    expect(await everything(to)).toHaveLength(10);
  });
});

test('a copy and its comparison continue after a restart of the target server', async () => {
  const fake = await startFakeServer();
  const [from, to] = [await opened('the embedded log'), await openedUntilFinished(fake.url)];
  await appendMany(from, 100);
  const onProgress = restarting(fake);
  expect(await copyLog({ from, to, onProgress })).toEqual({ events: 100, copied: 100 });
  expect(await contents(to)).toEqual(await contents(from));
  expect(fake.log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAM_PREFIX))).toHaveLength(100);
});

const fern: NewEvent = {
  id: randomUUID(),
  type: 'PlantCreated',
  data: { name: 'Fern' },
  metadata: { schemaVersion: 1 },
};

/** Appends ten events of alice and of bob, with unusual text. */
async function appendPlants(store: EventStore): Promise<void> {
  const created = (user: string, id: string, rest: object): [string, NewEvent] => [
    `plant-${user}/${id}`,
    {
      id: randomUUID(),
      type: 'PlantCreated',
      data: { id, user, ...rest },
      metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' },
    },
  ];
  const events: [string, NewEvent, bigint?][] = [
    created('alice', '1', { name: 'Fern', tag: 'indoor' }),
    created('bob', '1', { name: '', tag: '' }),
    created('alice', '-9223372036854775808', {
      name: 'nul \0, quote ", backslash \\, line \u2028 \u2029 \r\n',
    }),
    [
      'plant-alice/1',
      { ...named(''), type: 'PlantWatered', data: { litres: 0.1, deep: [[{ '': null }], true] } },
      0n,
    ],
    created('bob', '2', { name: 'emoji 🌱👩‍🌾, lone \ud83c, \ufeffmark' }),
    ['plant-alice/1', { ...named('x'), type: 'Ünknown 🌱', metadata: {} }, 1n],
    ['plant-', named('in a stream whose name says nothing')],
    created('a-b/%/🌱 ', '9223372036854775807', { name: 'Moss' }),
    [
      'plant-alice/1',
      { ...named('y'), data: { ['__proto__']: 'own', constructor: 1, 2: 'two', 1: 'one' } },
      2n,
    ],
    created('bob', '3', { name: 'x'.repeat(60_000) }),
  ];
  for (const [stream, event, revision = NO_STREAM] of events) await store.append(stream, event, revision);
}

async function appendEvents(store: EventStore, events: Omit<RecordedEvent, 'position'>[]): Promise<void> {
  for (const { stream, revision, id, type, data, metadata } of events)
    await store.append(stream, { id, type, data, metadata } as NewEvent, revision - 1n);
}

async function opened(kind: string): Promise<EventStore> {
  return kind === 'the embedded log' ? openIn(tempDir()) : (await pooled()).store;
}

/** A log with ten events, and an empty one. */
async function withPlants(source = 'the embedded log', target = 'the embedded log') {
  const [from, to] = [await opened(source), await opened(target)];
  await appendPlants(from);
  return { from, to };
}

/** The same, and the server of the empty one. */
async function embeddedToFake() {
  const { server: fake, store: to } = await pooled();
  const from = await opened('the embedded log');
  await appendPlants(from);
  return { fake, from, to };
}

/** Inserts a row like another program. */
function insertRow(dir: string, row: Record<string, string | number>): void {
  using db = new DatabaseSync(join(dir, 'log.db'));
  db.prepare(
    "INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at) VALUES (:id, :stream, :revision, :type, :data, :metadata, '')",
  ).run(row);
}
