import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type EventStore, NO_STREAM, type RecordedEvent, START } from '../../src/eventStore/eventStore.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { type CreatePlant, createPlant, PlantIdTaken } from '../../src/plants/plant.ts';
import { tempDir } from '../support/tempDir.ts';

const SURROUNDINGS = {
  now: () => new Date('2026-03-01T12:00:00.000Z'),
  newId: () => crypto.randomUUID(),
  correlationId: 'request-1',
};

const FERN: CreatePlant = { user: 'alice', id: 42n, name: 'Fern', tag: 'indoor' };

async function given(...commands: CreatePlant[]): Promise<EventStore> {
  const onFatal = (error: Error): never => {
    throw error;
  };
  const store = await openSqliteEventStore({
    file: join(tempDir(), 'log.db'),
    now: SURROUNDINGS.now,
    onFatal,
  });
  onTestFinished(() => store.close());
  for (const command of commands) await createPlant(store, command, SURROUNDINGS);
  return store;
}

async function logOf(
  store: EventStore,
): Promise<Pick<RecordedEvent, 'stream' | 'type' | 'data' | 'metadata'>[]> {
  for await (const { events } of store.subscribe({ after: START, signal: new AbortController().signal })) {
    return events.map(({ stream, type, data, metadata }) => ({ stream, type, data, metadata }));
  }
  return [];
}

const streamsOf = async (store: EventStore): Promise<string[]> =>
  (await logOf(store)).map(({ stream }) => stream);

describe('createPlant', () => {
  test('given nothing, then PlantCreated in the stream of the plant', async () => {
    const store = await given();
    await createPlant(store, FERN, SURROUNDINGS);
    expect(await logOf(store)).toEqual([
      {
        stream: 'plant-alice/42',
        type: 'PlantCreated',
        data: { id: '42', user: 'alice', name: 'Fern', tag: 'indoor' },
        metadata: { $correlationId: 'request-1', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' },
      },
    ]);
  });

  test('without a tag, then an event without one', async () => {
    const store = await given();
    await createPlant(store, { user: 'alice', id: 1n, name: '' }, SURROUNDINGS);
    expect((await logOf(store))[0]?.data).toEqual({ id: '1', user: 'alice', name: '' });
  });

  test('given the same plant, then no new event, and the position of the first', async () => {
    const store = await given({ user: 'bob', id: 1n, name: 'Oak' }, FERN);
    expect(await createPlant(store, { ...FERN }, SURROUNDINGS)).toBe(2n);
    expect(await streamsOf(store)).toEqual(['plant-bob/1', 'plant-alice/42']);
  });

  const { tag: _, ...untagged } = FERN;
  test.each([
    ['another name', { ...FERN, name: 'Moss' }],
    ['another tag', { ...FERN, tag: 'outdoor' }],
    ['an empty tag', { ...FERN, tag: '' }],
    ['no tag', untagged],
  ])('given the plant with %s, then its id is taken', async (_name, other) => {
    const store = await given(FERN);
    await expect(createPlant(store, other, SURROUNDINGS)).rejects.toThrow(PlantIdTaken);
    expect(await streamsOf(store)).toEqual(['plant-alice/42']);
  });

  test('given the id with another user, then a plant of its own', async () => {
    const store = await given(FERN);
    await createPlant(store, { ...FERN, user: 'bob' }, SURROUNDINGS);
    expect(await streamsOf(store)).toEqual(['plant-alice/42', 'plant-bob/42']);
  });

  test('given something else in its stream, then its id is taken', async () => {
    const store = await given();
    const foreign = {
      id: crypto.randomUUID(),
      type: 'Other',
      data: { name: 'Fern', tag: 'indoor' },
      metadata: {},
    };
    await store.append('plant-alice/42', foreign, NO_STREAM);
    await expect(createPlant(store, FERN, SURROUNDINGS)).rejects.toThrow(PlantIdTaken);
  });

  test('twice at once with different content, then exactly one wins', async () => {
    const store = await given();
    const commands = [FERN, { ...FERN, name: 'Moss' }];
    const outcomes = await Promise.allSettled(
      commands.map((command) => createPlant(store, command, SURROUNDINGS)),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await streamsOf(store)).toEqual(['plant-alice/42']);
  });
});
