import { storePool } from '@event-sourced/testing/storePool';
import { openIn, openOver } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { type EventStore, NO_STREAM, START } from '../../src/eventStore.ts';
import { viewLag } from '../../src/views/viewLag.ts';

const NOW = new Date('2026-03-01T12:01:00Z');
const NONE = { events: 0, seconds: 0 };
const eventStoreDb = storePool(openOver);

/** Appends an event, and returns its position. */
async function append(store: EventStore, id: number, metadata = {}): Promise<bigint> {
  const event = { id: crypto.randomUUID(), type: 'Written', data: {}, metadata };
  return (await store.append(`plant-alice/${id}`, event, NO_STREAM)).position;
}

const at = (occurredAt: string) => ({ occurredAt });

describe.each([
  ['the embedded log', () => openIn(tempDir())],
  ['EventStoreDB', async () => (await eventStoreDb()).store],
])('the lag behind %s', (_, open) => {
  test('is the events that follow, and the time since the first of them occurred', async () => {
    const store = await open();
    expect(await viewLag(store, START, NOW)).toEqual(NONE);
    const first = await append(store, 1, at('2026-03-01T12:00:00Z'));
    const second = await append(store, 2, at('2026-03-01T12:00:59.5Z'));
    expect(await viewLag(store, START, NOW)).toEqual({ events: 2, seconds: 60 });
    expect(await viewLag(store, first, NOW)).toEqual({ events: 1, seconds: 0.5 });
    expect(await viewLag(store, second, NOW)).toEqual(NONE);
    await append(store, 3, at('2026-03-01T12:00:59Z'));
    expect(await viewLag(store, second, NOW)).toEqual({ events: 1, seconds: 1 });
  });

  test.each([
    ['0 seconds, not less, if the clock of the writer is ahead', at('2026-03-01T13:00:00Z'), 0],
    ['unknown if the first event does not have it', {}, undefined],
    ['unknown if it is not a time', at('yesterday'), undefined],
  ])('since the first event occurred is %s', async (_, metadata, seconds) => {
    const store = await open();
    await append(store, 1, metadata);
    expect(await viewLag(store, START, NOW)).toEqual({ events: 1, seconds });
  });
});

test('events of other streams of EventStoreDB do not count', async () => {
  const { server, store } = await eventStoreDb();
  const position = await append(store, 1);
  for (let i = 0; i < 600; i++) server.write(`other-${i}`);
  expect(await viewLag(store, position, NOW)).toEqual(NONE);
  await append(store, 2);
  expect(await viewLag(store, position, NOW)).toEqual({ events: 1, seconds: undefined });
});
