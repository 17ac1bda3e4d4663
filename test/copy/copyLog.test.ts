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
import { PLANT_STREAMS } from '../../src/plants/plant.ts';
import { everything } from '../eventStore/contract.ts';
import { storePool } from '../support/storePool.ts';
import { tempDir } from '../support/tempDir.ts';
import {
  comparable,
  contents,
  named,
  openAsCommand,
  openedUntilFinished,
  openIn,
  plantMany,
  refusal,
  restarting,
  startDouble,
} from './logs.ts';

const pooled = storePool((url) => openAsCommand(url));

/** The event in the log that a test has to do with. */
const ID = '0f0e0d0c-0b0a-4908-8706-050403020100';

describe.each(['the embedded log', 'EventStoreDB'])('copying from %s', (source) => {
  const target = source === 'EventStoreDB' ? 'the embedded log' : 'EventStoreDB';

  test.each(['the embedded log', 'EventStoreDB'])(
    'to %s gives it the same events in the same order, and the next time nothing',
    async (other) => {
      const [from, to] = [await opened(source), await opened(other)];
      await plant(from);
      expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 10 });
      const copied = await everything(to);
      expect(copied.map(comparable)).toEqual(await contents(from));
      expect(copied).toHaveLength(10);
      expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 0 });
      expect(await everything(to)).toEqual(copied);
    },
  );

  test('without events gives none', async () => {
    const [from, to] = [await opened(source), await opened(target)];
    expect(await copyLog({ from, to })).toEqual({ events: 0, copied: 0 });
  });

  test('loses nothing between one batch and the next', async () => {
    const [from, to] = [await opened(source), await opened('the embedded log')];
    await plantMany(from, 520);
    expect(await copyLog({ from, to })).toEqual({ events: 520, copied: 520 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test('goes on where the target ends', async () => {
    const [from, to] = [await opened(source), await opened(target)];
    await plant(from);
    await give(to, (await contents(from)).slice(0, 4));
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 6 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test.each([
    ['another plant in it', 0],
    ['another plant after some of the same', 3],
  ])('refuses a target with %s, names both places and leaves it as it is', async (_, same) => {
    const [from, to] = [await opened(source), await opened(target)];
    await plant(from);
    const events = await everything(from);
    await give(to, events.slice(0, same));
    const { position } = await to.append('plant-mallory/1', named('other'), NO_STREAM);
    const before = await everything(to);
    const places = `position ${events[same]?.position} of the source and ${position} of the target`;
    expect(await refusal(copyLog({ from, to }))).toContain(
      `the target holds other events, and is left as it is: ${places} differ in stream, `,
    );
    expect(await everything(to)).toEqual(before);
  });

  test('refuses a target with all of the same and one more', async () => {
    const [from, to] = [await opened(source), await opened(target)];
    await plant(from);
    await give(to, await everything(from));
    const { position } = await to.append('plant-mallory/1', named('other'), NO_STREAM);
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the target holds other events, and is left as it is: the target has one more, at position ${position}`,
    );
  });

  test('tells how far it has come: the copying, then the comparing', async () => {
    const [from, to] = [await opened(source), await opened(target)];
    await plant(from);
    const told: CopyProgress[] = [];
    await copyLog({ from, to, onProgress: (progress) => told.push(progress) });
    const positions = (await everything(from)).map(({ position }) => position);
    const end = positions.at(-1);
    const steps = (step: string) => positions.map((position, i) => ({ step, events: i + 1, position, end }));
    expect(told).toEqual([...steps('copying'), ...steps('comparing')]);
  });
});

describe('the target', () => {
  test.each([
    ['id', { id: randomUUID() }],
    ['type', { type: 'PlantNamed' }],
    ['data', { data: { name: 'Fern', tag: '' } }],
    ['metadata', { metadata: {} }],
  ])('is another one when an event has another %s', async (part, other) => {
    const [from, to] = [await opened('the embedded log'), await opened('the embedded log')];
    await from.append('plant-alice/1', { ...fern, id: ID }, NO_STREAM);
    await to.append('plant-alice/1', { ...fern, id: ID, ...other }, NO_STREAM);
    expect(await refusal(copyLog({ from, to }))).toMatch(new RegExp(`differ in ${part}$`));
  });

  test('may hold what is no concern of plants', async () => {
    const { from, to, double } = await embeddedToDouble();
    double.write('invoice-1', { data: { due: true } });
    await plant(from);
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 10 });
  });

  test('that gets events from somebody else meanwhile is told of', async () => {
    const { from, to, double } = await embeddedToDouble();
    await plant(from);
    const intrude = ({ events }: CopyProgress) => {
      if (events === 4) double.write('plant-mallory/1', { data: { name: 'other' } });
    };
    expect(await refusal(copyLog({ from, to, onProgress: intrude }))).toMatch(
      /^the copy is not like the source: position 5 of the source and \d+ of the target differ in stream, /,
    );
  });

  test('that gets another event into the next stream is told of before anything comes after it', async () => {
    const { from, to, double } = await embeddedToDouble();
    await plant(from);
    const next = (await everything(from))[4];
    const intrude = ({ events }: CopyProgress) => {
      if (events === 4) double.write(`${next?.stream}`, { data: { name: 'other' } });
    };
    expect(await refusal(copyLog({ from, to, onProgress: intrude }))).toMatch(
      /^the event at position 5 of the source .* somebody else writes to the target/,
    );
    expect(await everything(to)).toHaveLength(5);
  });

  test('that stores something else than it was given is found out', async () => {
    const [from, to] = [await opened('the embedded log'), await opened('the embedded log')];
    await plant(from);
    const append: EventStore['append'] = (stream, event, revision) =>
      to.append(stream, event.type === 'PlantWatered' ? { ...event, data: {} } : event, revision);
    expect(await refusal(copyLog({ from, to: { ...to, append } }))).toBe(
      'the copy is not like the source: position 4 of the source and 4 of the target differ in data',
    );
  });
});

describe('the source', () => {
  test('that has grown since it was copied is told of, and a second copy brings the rest', async () => {
    const [from, to] = [await opened('the embedded log'), await opened('the embedded log')];
    await plant(from);
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
    await plantMany(from, 520);
    const close = ({ events }: CopyProgress) => {
      if (events === 10) void from.close();
    };
    expect(await refusal(copyLog({ from, to, onProgress: close }))).toBe(
      'the source cannot be reached: the log has been closed',
    );
  });
});

describe('an event that would not be the same is named, and nothing after it is copied:', () => {
  test.each([
    ['text that is no JSON', { data: 'no JSON' }, 'its data is no JSON object'],
    [
      'a number beyond 53 bits',
      { data: '{"a":9007199254740993}' },
      'its data holds a number that may have lost digits',
    ],
    [
      'endless brackets',
      { metadata: `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}` },
      'its metadata is nested too deep',
    ],
    [
      'a stream whose earlier events are gone',
      { revision: 3 },
      'its stream is not at the revision before: somebody else writes to the target, or the source has lost earlier events of the stream',
    ],
  ])('%s, in the embedded log', async (_, part, reason) => {
    const dir = tempDir();
    const from = await openIn(dir);
    await from.append('plant-alice/1', fern, NO_STREAM);
    const row = { id: ID, stream: 'plant-alice/2', revision: 0, type: 'T', data: '{}' };
    foreign(dir, { ...row, metadata: '{}', ...part });
    foreign(dir, { ...row, id: randomUUID(), stream: 'plant-alice/3', metadata: '{}' });
    const again = await openIn(dir);
    const to = await opened('the embedded log');
    expect(await refusal(copyLog({ from: again, to }))).toBe(
      `the event at position 2 of the source cannot be copied: ${reason}`,
    );
    expect(await contents(to)).toEqual((await contents(from)).slice(0, 1));
  });

  test.each([
    [
      'bytes',
      { data: Buffer.of(0, 255), contentType: 'application/octet-stream' },
      'its data is no JSON object',
    ],
    ['no metadata', { metadata: undefined }, 'its metadata is no JSON object'],
    ['the id of another event', { id: ID }, 'UNIQUE constraint failed: events.id'],
  ])('%s, in EventStoreDB', async (_, part, reason) => {
    const { from, to, double } = await doubleToEmbedded();
    const json = { data: { name: 'Fern' }, metadata: {} };
    double.write('plant-alice/1', { ...json, id: ID });
    const { position } = double.write('plant-alice/2', { ...json, ...part });
    double.write('plant-alice/3', json);
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the event at position ${position} of the source cannot be copied: ${reason}`,
    );
    expect((await everything(to)).map(({ stream }) => stream)).toEqual(['plant-alice/1']);
  });

  test('more than EventStoreDB takes', async () => {
    const { from, to } = await embeddedToDouble();
    await from.append('plant-alice/1', fern, NO_STREAM);
    await from.append('plant-alice/2', { ...named('x'.repeat(1024 * 1024)), id: ID }, NO_STREAM);
    await from.append('plant-alice/3', named('after'), NO_STREAM);
    expect(await refusal(copyLog({ from, to }))).toMatch(
      /^the event at position 2 of the source cannot be copied: EventStoreDB refuses this for good/,
    );
    expect(await everything(to)).toHaveLength(1);
  });
});

test('a server that is restarted in the midst of a copy to it, and of the comparison, does not matter', async () => {
  const double = await startDouble();
  const [from, to] = [await opened('the embedded log'), await openedUntilFinished(double.url)];
  await plantMany(from, 100);
  const onProgress = restarting(double);
  expect(await copyLog({ from, to, onProgress })).toEqual({ events: 100, copied: 100 });
  expect(await contents(to)).toEqual(await contents(from));
  expect(double.log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAMS))).toHaveLength(100);
});

const fern: NewEvent = {
  id: randomUUID(),
  type: 'PlantCreated',
  data: { name: 'Fern' },
  metadata: { schemaVersion: 1 },
};

/** Ten events of alice and of bob, with all that text can be. */
async function plant(store: EventStore): Promise<void> {
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

async function give(store: EventStore, events: Omit<RecordedEvent, 'position'>[]): Promise<void> {
  for (const { stream, revision, id, type, data, metadata } of events)
    await store.append(stream, { id, type, data, metadata } as NewEvent, revision - 1n);
}

async function opened(kind: string): Promise<EventStore> {
  return kind === 'the embedded log' ? openIn(tempDir()) : (await pooled()).store;
}

async function embeddedToDouble() {
  const { server: double, store: to } = await pooled();
  return { double, from: await opened('the embedded log'), to };
}

async function doubleToEmbedded() {
  const { server: double, store: from } = await pooled();
  return { double, from, to: await opened('the embedded log') };
}

/** A row that another program has put into the log. */
function foreign(dir: string, row: Record<string, string | number>): void {
  using db = new DatabaseSync(join(dir, 'log.db'));
  db.prepare(
    "INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at) VALUES (:id, :stream, :revision, :type, :data, :metadata, '')",
  ).run(row);
}
