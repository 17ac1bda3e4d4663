import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { type EventStore, NO_STREAM } from '../../packages/event-log/src/eventStore.ts';
import { everything } from '../../packages/event-log/src/testing/contract.ts';
import { createPlant, PlantIdTaken } from '../../src/plants/createPlant.ts';

type CreatePlant = Parameters<typeof createPlant>[1];

const CONTEXT = {
  now: () => new Date('2026-03-01T12:00:00.000Z'),
  newEventId: () => crypto.randomUUID(),
  correlationId: 'request-1',
};

const FERN: CreatePlant = { user: 'alice', id: 42n, name: 'Fern', tag: 'indoor' };

async function given(...commands: CreatePlant[]): Promise<EventStore> {
  const store = await openIn(tempDir());
  for (const command of commands) await createPlant(store, command, CONTEXT);
  return store;
}

const streamsOf = async (store: EventStore): Promise<string[]> =>
  (await everything(store)).map(({ stream }) => stream);

describe('createPlant', () => {
  test('appends PlantCreated to the stream of a new plant', async () => {
    const store = await given();
    await createPlant(store, FERN, CONTEXT);
    expect(await everything(store)).toMatchObject([
      {
        stream: 'plant-alice/42',
        type: 'PlantCreated',
        data: { id: '42', user: 'alice', name: 'Fern', tag: 'indoor' },
        metadata: { $correlationId: 'request-1', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' },
      },
    ]);
  });

  test('returns the position of the existing event if the plant is the same', async () => {
    const store = await given({ user: 'bob', id: 1n, name: 'Oak' }, FERN);
    expect(await createPlant(store, { ...FERN }, CONTEXT)).toMatchObject({ position: 2n, created: false });
    expect(await streamsOf(store)).toEqual(['plant-bob/1', 'plant-alice/42']);
  });

  test('has created the plant, also if the store finds its own event when it repeats the append', async () => {
    const store = await given();
    expect(await createPlant(store, FERN, CONTEXT)).toMatchObject({ position: 1n, created: true });
    const append: EventStore['append'] = async (...event) => {
      await store.append(...event);
      return store.append(...event);
    };
    const repeating = { append, readStream: store.readStream.bind(store) } as unknown as EventStore;
    expect(await createPlant(repeating, { ...FERN, id: 43n }, CONTEXT)).toMatchObject({
      position: 2n,
      created: true,
    });
  });

  const { tag: _, ...untagged } = FERN;
  test.each([
    ['another name', FERN, { ...FERN, name: 'Moss' }],
    ['another case', FERN, { ...FERN, name: 'fern' }],
    ['another normal form', { ...FERN, name: 'F\u00e9rn' }, { ...FERN, name: 'Fe\u0301rn' }],
    ['another tag', FERN, { ...FERN, tag: 'outdoor' }],
    ['an empty tag', FERN, { ...FERN, tag: '' }],
    ['no tag', FERN, untagged],
    ['a tag', untagged, FERN],
  ])('fails with PlantIdTaken if the existing plant differs: %s', async (_, existing, other) => {
    const store = await given(existing);
    await expect(createPlant(store, other, CONTEXT)).rejects.toThrow(PlantIdTaken);
    expect(await streamsOf(store)).toEqual(['plant-alice/42']);
  });

  test.each([
    ['a PlantCreated without the ID and the user', 'PlantCreated'],
    ['an unknown event', 'Other'],
  ])('fails with PlantIdTaken if its stream has %s', async (_, type) => {
    const store = await given();
    const event = { id: crypto.randomUUID(), type, data: { name: 'Fern', tag: 'indoor' }, metadata: {} };
    await store.append('plant-alice/42', event, NO_STREAM);
    await expect(createPlant(store, FERN, CONTEXT)).rejects.toThrow(PlantIdTaken);
  });
});
