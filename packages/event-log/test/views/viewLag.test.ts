import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { storePool } from '../../../../test/support/storePool.ts';
import { openIn, openOver } from '../../../../test/support/stores.ts';
import { tempDir } from '../../../../test/support/tempDir.ts';
import { type EventStore, LogReplaced, NO_STREAM, START } from '../../src/eventStore.ts';
import { ViewLag } from '../../src/views/viewLag.ts';

const NOW = () => new Date('2026-03-01T12:01:00Z');
const NEVER = new AbortController().signal;
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
    const lag = new ViewLag(store, NOW);
    expect(await lag.at(START, NEVER)).toEqual(NONE);
    const first = await append(store, 1, at('2026-03-01T12:00:00Z'));
    const second = await append(store, 2, at('2026-03-01T12:00:59.5Z'));
    expect(await lag.at(START, NEVER)).toEqual({ events: 2, seconds: 60 });
    expect(await lag.at(first, NEVER)).toEqual({ events: 1, seconds: 0.5 });
    expect(await lag.at(second, NEVER)).toEqual(NONE);
    await append(store, 3, at('2026-03-01T12:00:59Z'));
    expect(await lag.at(second, NEVER)).toEqual({ events: 1, seconds: 1 });
  });

  test.each([
    ['0 seconds, not less, if the clock of the writer is ahead', at('2026-03-01T13:00:00Z'), 0],
    ['unknown if the first event does not have it', {}, undefined],
    ['unknown if it is not a time', at('yesterday'), undefined],
  ])('since the first event occurred is %s', async (_, metadata, seconds) => {
    const store = await open();
    await append(store, 1, metadata);
    expect(await new ViewLag(store, NOW).at(START, NEVER)).toEqual({ events: 1, seconds });
  });
});

describe('on EventStoreDB', () => {
  test('events of other streams are not read again, and do not count', async () => {
    const { server, store } = await eventStoreDb();
    const position = await append(store, 1);
    for (let i = 0; i < 1_200; i++) server.write(`other-${i}`);
    const after: bigint[] = [];
    const log = {
      ...store,
      readAll: async (range: { after: bigint; limit: number }) => {
        after.push(range.after);
        return store.readAll(range);
      },
    } as unknown as EventStore;
    const lag = new ViewLag(log, NOW);
    expect(await lag.at(position, NEVER)).toEqual(NONE);
    expect(after[0]).toBe(position);
    const read = after.length;
    expect(read).toBeGreaterThan(1);
    expect(await lag.at(position, NEVER)).toEqual(NONE);
    expect(after).toHaveLength(read + 1);
    await append(store, 2);
    expect(await lag.at(position, NEVER)).toEqual({ events: 1, seconds: undefined });
  });

  test('an event that follows many others is found by several searches, which have bounds of the lag until then', async () => {
    const { server, store } = await eventStoreDb();
    const position = await append(store, 1);
    for (let i = 0; i < 1_200; i++) server.write(`other-${i}`);
    await append(store, 2, at('2026-03-01T12:00:00Z'));
    const first = server.log.indexOf(position);
    const writtenAt = (index: number): number => server.log.all[index]?.created ?? Number.NaN;
    const now = writtenAt(first) + 60_000;
    const lag = new ViewLag(store, () => new Date(now));
    for (const read of [first + 500, first + 1_000])
      expect(await lag.at(position, AbortSignal.abort())).toEqual({
        events: 0,
        seconds: (now - writtenAt(read)) / 1_000,
      });
    expect(await lag.at(position, AbortSignal.abort())).toEqual({
      events: 1,
      seconds: (now - Date.parse('2026-03-01T12:00:00Z')) / 1_000,
    });
  });

  test('a search goes on also if the view has read a part of what was searched', async () => {
    const after: bigint[] = [];
    const log = {
      readAll: async (range: { after: bigint }) => {
        await nextTurn();
        after.push(range.after);
        const position = range.after + 4n;
        return { events: [], position, isEnd: false, writtenAt: new Date('2026-03-01T12:00:30Z') };
      },
    } as unknown as EventStore;
    const lag = new ViewLag(log, NOW);
    for (const position of [1n, 3n, 5n, 20n, 2n])
      expect(await lag.at(position, AbortSignal.abort())).toEqual({ events: 0, seconds: 30 });
    expect(after).toEqual([1n, 5n, 9n, 20n, 2n]);
  });

  test('a log that was replaced is searched from the position of the view', async () => {
    let isReplaced = false;
    const after: bigint[] = [];
    const log = {
      readAll: async (range: { after: bigint }) => {
        after.push(range.after);
        if (isReplaced && range.after > 1n) throw new LogReplaced('replaced');
        return { events: [], position: 9n, isEnd: true };
      },
    } as unknown as EventStore;
    const lag = new ViewLag(log, NOW);
    await lag.at(1n, NEVER);
    isReplaced = true;
    await expect(lag.at(1n, NEVER)).rejects.toThrow(LogReplaced);
    expect(await lag.at(1n, NEVER)).toEqual(NONE);
    expect(after).toEqual([1n, 9n, 1n]);
  });
});
