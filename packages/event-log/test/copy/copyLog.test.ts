import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { erasable, eraseIn } from '@event-sourced/testing/erase';
import { appendTo, type EventToStore, eventId, plantOf, writeTo } from '@event-sourced/testing/logs';
import { storePool } from '@event-sourced/testing/storePool';
import { comparable, contents, named, openIn, openOver, refusal } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type CopyProgress, copyLog } from '../../src/copy/copyLog.ts';
import type { EventLog, EventStore } from '../../src/eventStore.ts';
import { openLogReader } from '../../src/sqlite/read.ts';
import { everything } from '../../src/testing/contract.ts';

const pooled = storePool(openOver);

const FERN = plantOf('alice', 1, 'Fern');

test.each([
  ['the embedded log', 'the embedded log'],
  ['the embedded log', 'EventStoreDB'],
  ['EventStoreDB', 'the embedded log'],
])(
  'a copy of %s to %s has the same events in the same order, and the next one adds none',
  async (source, target) => {
    const { from, to } = await withPlants(source, target);
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 10 });
    const copied = await everything(to);
    expect(copied.map(comparable)).toEqual(await contents(from));
    expect(copied).toHaveLength(10);
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 0 });
    expect(await everything(to)).toEqual(copied);
  },
);

describe('a copy of a log with erased events', () => {
  async function withErasable(target: string) {
    const from = erasable(await openIn(appendTo(tempDir(), ...PLANTS)));
    const to = target === 'EventStoreDB' ? (await pooled()).store : await openIn(tempDir());
    const eraseAlice = () => eraseIn(from, 'plant-', (stream) => stream.startsWith('plant-alice/'));
    return { from, to, copy: () => copyLog({ from, to, prefix: 'plant-' }), eraseAlice };
  }

  test.each(['the embedded log', 'EventStoreDB'])('to %s has the stubs and the records', async (target) => {
    const { from, to, copy, eraseAlice } = await withErasable(target);
    expect(await eraseAlice()).toBeGreaterThan(0);
    await copy();
    expect(await contents(to)).toEqual(await contents(from));
    expect((await contents(to)).map(({ stream }) => stream)).not.toContainEqual(
      expect.stringContaining('alice'),
    );
  });

  test.each(['the embedded log', 'EventStoreDB'])(
    'refuses an earlier copy in %s that has the erased events, and does not change it',
    async (target) => {
      const { to, copy, eraseAlice } = await withErasable(target);
      await copy();
      const before = await contents(to);
      await eraseAlice();
      expect(await refusal(copy())).toMatch(
        /: the source has erased its event at position 1: copy to an empty target, and delete this one$/,
      );
      expect(await contents(to)).toEqual(before);
    },
  );
});

describe('a copy to EventStoreDB', () => {
  test('resumes after the last event of the target', async () => {
    const { from, to, fake } = await embeddedToFake();
    writeTo(fake, ...PLANTS.slice(0, 4));
    expect(await copyLog({ from, to })).toEqual({ events: 10, copied: 6 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test.each([
    ['another plant in it', 0],
    ['another plant after some of the same', 3],
  ])('rejects a target with %s, reports both positions and does not change it', async (_, same) => {
    const { from, to, fake } = await embeddedToFake();
    writeTo(fake, ...PLANTS.slice(0, same));
    const { position } = fake.write('plant-mallory/1', named('other'));
    const before = await everything(to);
    const places = `position ${same + 1} of the source and ${position} of the target`;
    expect(await refusal(copyLog({ from, to }))).toContain(
      `the target has different events; it was not changed: ${places} differ in stream, `,
    );
    expect(await everything(to)).toEqual(before);
  });

  test('rejects a target with the same events and an additional one', async () => {
    const { from, to, fake } = await embeddedToFake();
    writeTo(fake, ...PLANTS);
    const { position } = fake.write('plant-mallory/1', named('other'));
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the target has different events; it was not changed: the target has one more event, at position ${position}`,
    );
  });

  test('reports its progress: copying, then comparing', async () => {
    const { from, to } = await embeddedToFake();
    const reported: CopyProgress[] = [];
    await copyLog({ from, to, onProgress: (progress) => reported.push(progress) });
    const positions = (await everything(from)).map(({ position }) => position);
    const end = positions.at(-1);
    const steps = (step: string) => positions.map((position, i) => ({ step, events: i + 1, position, end }));
    expect(reported).toEqual([...steps('copying'), ...steps('comparing')]);
  });
});

describe('the target', () => {
  test('differs if an event has another id, type, data or metadata', async () => {
    const to = await openIn(appendTo(tempDir(), FERN));
    for (const [part, other] of Object.entries({
      id: randomUUID(),
      type: 'PlantNamed',
      data: { name: 'Fern', tag: '' },
      metadata: {},
    })) {
      const from = readerOf(appendTo(tempDir(), { ...FERN, [part]: other }));
      expect(await refusal(copyLog({ from, to }))).toMatch(new RegExp(`differ in ${part}$`));
    }
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

  test('that stores different data is detected', async () => {
    const { from, to } = await withPlants();
    const append: EventStore['append'] = (stream, event, revision) =>
      to.append(stream, event.type === 'PlantPruned' ? { ...event, data: {} } : event, revision);
    expect(await refusal(copyLog({ from, to: { ...to, append } }))).toBe(
      'the copy does not match the source: position 4 of the source and 4 of the target differ in data',
    );
  });
});

test('a source that grows during the copy is reported, and a second copy adds the rest', async () => {
  const dir = appendTo(tempDir(), ...PLANTS);
  const [from, to] = [readerOf(dir), await openIn(tempDir())];
  const append: EventStore['append'] = async (stream, event, revision) => {
    const appended = await to.append(stream, event, revision);
    if (appended.position === 10n) appendTo(dir, { ...FERN, stream: 'plant-late/1' });
    return appended;
  };
  expect(await refusal(copyLog({ from, to: { ...to, append } }))).toMatch(
    /^the source has grown during the copy, at position 11: /,
  );
  expect(await copyLog({ from, to })).toEqual({ events: 11, copied: 1 });
});

describe('an event that cannot be copied exactly is reported, and ends the copy:', () => {
  const NOT_NEXT =
    'its stream is not at the preceding revision: another program writes to the target, or the source has lost earlier events of the stream';
  const DEEP = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
  test.each([
    ['50 000 nested arrays', { metadata: DEEP }, 'its metadata is nested too deeply'],
    ['a stream without its earlier events', { revision: 3 }, NOT_NEXT],
  ])('%s, in the embedded log', async (_, part, reason) => {
    const [before, after] = [FERN, { ...FERN, id: randomUUID(), stream: 'plant-alice/3' }];
    const other = { stream: 'plant-alice/2', id: eventId(2), data: '{}', metadata: '{}', ...part };
    const from = readerOf(appendTo(tempDir(), before, other, after));
    const to = await openIn(tempDir());
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the event at position 2 of the source cannot be copied: ${reason}`,
    );
    expect(await contents(to)).toEqual((await contents(from)).slice(0, 1));
  });

  const BINARY = { data: Buffer.of(0, 255), contentType: 'application/octet-stream' };
  const NOT_UNIQUE = 'the log rejected the event: UNIQUE constraint failed: events.id';
  test.each([
    ['binary data', BINARY, 'its data is not a JSON object'],
    ['the id of another event', { id: FERN.id }, NOT_UNIQUE],
  ])('%s, in EventStoreDB', async (_, part, reason) => {
    const { server: fake, store: from } = await pooled();
    const to = await openIn(tempDir());
    const json = { data: { name: 'Fern' }, metadata: {} };
    fake.write('plant-alice/1', { ...json, id: FERN.id });
    const { position } = fake.write('plant-alice/2', { ...json, ...part });
    fake.write('plant-alice/3', json);
    expect(await refusal(copyLog({ from, to }))).toBe(
      `the event at position ${position} of the source cannot be copied: ${reason}`,
    );
    expect((await everything(to)).map(({ stream }) => stream)).toEqual(['plant-alice/1']);
  });

  test('an event that is too large for EventStoreDB', async () => {
    const { dir, from, to } = await embeddedToFake();
    appendTo(dir, { ...named('x'.repeat(1024 * 1024)), stream: 'plant-alice/2' });
    appendTo(dir, { ...named('after'), stream: 'plant-alice/3' });
    expect(await refusal(copyLog({ from, to }))).toContain(
      `the event at position 11 of the source cannot be copied: EventStoreDB rejects this permanently`,
    );
    expect(await everything(to)).toHaveLength(10);
  });
});

/** Ten events of alice and of bob, with unusual text. */
const PLANTS: EventToStore[] = [
  created('alice', '1', { name: 'Fern', tag: 'indoor' }),
  created('bob', '1', { name: '', tag: '' }),
  created('alice', '-9223372036854775808', {
    name: 'nul \0, quote ", backslash \\, line \u2028 \u2029 \r\n',
  }),
  ofFern(1, 'PlantPruned', { litres: 0.1, deep: [[{ '': null }], true] }),
  created('bob', '2', { name: 'emoji 🌱👩‍🌾, lone \ud83c, \ufeffmark' }),
  ofFern(2, 'Ünknown 🌱', { name: 'x' }),
  { ...named('in a stream whose name says nothing'), stream: 'plant-' },
  created('a-b/%/🌱 ', '9223372036854775807', { name: 'Moss' }),
  ofFern(3, 'Written', { ['__proto__']: 'own', constructor: 1, 2: 'two', 1: 'one' }),
  created('bob', '3', { name: 'x'.repeat(60_000) }),
];

function created(user: string, id: string, rest: object): EventToStore {
  return { stream: `plant-${user}/${id}`, id: randomUUID(), data: { id, user, ...rest } };
}

/** A later event of alice's first plant. */
function ofFern(revision: number, type: string, data: object): EventToStore {
  return { stream: 'plant-alice/1', revision, id: randomUUID(), type, data, metadata: {} };
}

/** A reader of the log in a data directory, until the end of the test. */
function readerOf(dir: string): EventLog {
  const log = openLogReader(join(dir, 'log.db'));
  onTestFinished(() => log.close());
  return log;
}

/** A log with ten events, and an empty one. */
async function withPlants(source = 'the embedded log', target = 'the embedded log') {
  const to = target === 'EventStoreDB' ? (await pooled()).store : await openIn(tempDir());
  if (source !== 'EventStoreDB') return { from: readerOf(appendTo(tempDir(), ...PLANTS)), to };
  const { server, store: from } = await pooled();
  writeTo(server, ...PLANTS);
  return { from, to };
}

/** The same, and the directory of the first and the server of the empty one. */
async function embeddedToFake() {
  const { server: fake, store: to } = await pooled();
  const dir = appendTo(tempDir(), ...PLANTS);
  return { fake, dir, from: readerOf(dir), to };
}
