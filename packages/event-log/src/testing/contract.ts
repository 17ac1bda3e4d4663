import { randomUUID } from 'node:crypto';
import { test as base, describe, expect, onTestFinished } from 'vitest';
import {
  type EventLog,
  type EventStore,
  type NewEvent,
  NO_STREAM,
  PAGE_LENGTH,
  type Page,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../eventStore.ts';
import { readToEnd } from '../readEvents.ts';

/** The prefix of the contract's streams. Open a store that filters streams with this prefix. */
export const STREAM_PREFIX = 'list-';

/** The number of concurrent appends: a slow machine completes them within the timeout of one call. */
const PORTION = 100;

/** Opens a store over an empty log, or reopens the log of an earlier store. */
export type Open = (earlier?: EventStore) => Promise<EventStore>;

type Options = {
  /** Returns a pooled store over an empty log, which stays open: opening a store may be expensive. */
  borrow?: () => Promise<EventStore>;
};

/** The contract of every event store. The test of an adapter names the store and calls this function. */
export function eventStoreContract(name: string, open: Open, { borrow }: Options = {}): void {
  describe(name, () => {
    const openNew = async (): Promise<EventStore> => {
      const store = await open();
      onTestFinished(() => store.close());
      return store;
    };
    const test = base.extend('store', () => (borrow ?? openNew)());

    describe('append', () => {
      test('returns the log ID, revision 0 for the first event of a stream, and 1 for the next', async ({
        store,
      }) => {
        const first = await store.append('list-alice/1', event('first'), NO_STREAM);
        const second = await store.append('list-alice/1', event('second'), first.revision);
        expect([first.revision, second.revision]).toEqual([0n, 1n]);
        expect([first.logId, second.logId]).toEqual(Array(2).fill(await store.logId()));
        expect(second.position).toBeGreaterThan(first.position);
      });

      test('that expects a revision is rejected if there is no stream', async ({ store }) => {
        for (const revision of [0n, 7n]) await expectWrongRevision(store, revision);
        expect(await store.readStream('list-alice/1', 10)).toEqual([]);
      });

      test('that expects no stream, an earlier or a later revision is rejected', async ({ store }) => {
        await store.append('list-alice/1', event('first'), NO_STREAM);
        await expectWrongRevision(store, NO_STREAM);
        await store.append('list-alice/1', event('second'), 0n);
        for (const revision of [NO_STREAM, 0n, 2n]) await expectWrongRevision(store, revision);
        expect(names(await store.readStream('list-alice/1', 10))).toEqual(['first', 'second']);
      });

      test('of the same event again returns its first result', async ({ store }) => {
        const once = event('once');
        const first = await store.append('list-alice/1', once, NO_STREAM);
        await store.append('list-bob/1', event('other'), NO_STREAM);
        expect(await store.append('list-alice/1', once, NO_STREAM)).toEqual(first);
        expect(names(await everything(store))).toEqual(['once', 'other']);
      });

      test('repeated concurrently 50 times stores one event', async ({ store }) => {
        const append = () => store.append('list-alice/1', event('any'), NO_STREAM);
        const outcomes = await Promise.allSettled(Array.from({ length: 50 }, append));
        const refused = outcomes.filter(({ status }) => status === 'rejected');
        const wrongRevision = { status: 'rejected', reason: expect.any(WrongExpectedRevision) };
        expect(refused).toEqual(Array(49).fill(wrongRevision));
        expect(await everything(store)).toHaveLength(1);
      });

      test('that is rejected because the stream exists has its first event', async ({ store }) => {
        const create = (i: number) =>
          store.append(`list-alice/${i}`, event('any'), NO_STREAM).catch(({ existing }) => existing);
        for (let i = 0; i < 10; i++) {
          const both = await Promise.all([create(i), create(i)]);
          const [first] = await store.readStream(`list-alice/${i}`, 2);
          expect(both.filter((found) => 'first' in found)).toEqual([{ first, logId: await store.logId() }]);
        }
      });

      test('that fails does not affect concurrent appends', async ({ store }) => {
        await store.append('list-alice/1', event('first'), NO_STREAM);
        const outcomes = await Promise.allSettled([
          store.append('list-alice/2', event('second'), NO_STREAM),
          store.append('list-alice/1', event('refused'), NO_STREAM),
          store.append('list-bob/1', event('third'), NO_STREAM),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
        expect(names(await everything(store))).toEqual(['first', 'second', 'third']);
      });

      test('of what some store cannot keep is rejected, alone', async ({ store }) => {
        const circle = event('circle');
        circle.metadata.circle = circle.metadata;
        const invalid: [stream: string, event: object, expectedRevision: bigint, error: object][] = [
          ['list-alice/1', { data: { number: 1n } }, NO_STREAM, TypeError],
          ['list-alice/2', circle, NO_STREAM, TypeError],
          ['list-alice/3', { data: undefined }, NO_STREAM, TypeError],
          ['list-alice/4', { id: 'one' }, NO_STREAM, TypeError],
          ['list-alice/5', { type: '' }, NO_STREAM, TypeError],
          ['list-\ud800/6', {}, NO_STREAM, TypeError],
          ['', {}, NO_STREAM, TypeError],
          ['list-alice/8', {}, NO_STREAM - 1n, WrongExpectedRevision],
          ['list-alice/9', {}, 2n ** 63n, WrongExpectedRevision],
        ];
        const appends = invalid.map(([stream, change, expectedRevision]) =>
          store.append(stream, { ...event('invalid'), ...change }, expectedRevision),
        );
        const valid = store.append('list-alice/10', event('valid'), NO_STREAM);
        const reasons = (await Promise.allSettled(appends)).map((outcome) =>
          outcome.status === 'rejected' ? outcome.reason.constructor : outcome,
        );
        expect(reasons).toEqual(invalid.map(([, , , error]) => error));
        await valid;
        expect(names(await everything(store))).toEqual(['valid']);
      });
    });

    describe('reading', () => {
      test('returns an event as it was appended', async ({ store }) => {
        const strange = {
          id: randomUUID(),
          type: 'ItemAdded',
          data: {
            text: 'nul \0, quote ", emoji 🌱, line\u2028',
            nested: { list: [1, null, true] },
            empty: '',
          },
          metadata: { $correlationId: 'c', schemaVersion: 1 },
        };
        const appended = await store.append('list-a-b/%/🌱/1', strange, NO_STREAM);
        const { position, revision } = appended;
        const expected = { ...strange, position, revision, stream: 'list-a-b/%/🌱/1' };
        expect(await store.readStream('list-a-b/%/🌱/1', 1)).toMatchObject([expected]);
        expect(await store.readEvent(position)).toMatchObject(expected);
        expect(await everything(store)).toMatchObject([expected]);
      });

      test('a stream returns at most the requested number of events, oldest first', async ({ store }) => {
        for (let i = -1n; i < 4n; i++) await store.append('list-alice/1', event(`${i + 1n}`), i);
        expect(names(await store.readStream('list-alice/1', 3))).toEqual(['0', '1', '2']);
      });

      test('a missing stream or a position without an event returns nothing', async ({ store }) => {
        const { position } = await store.append('list-alice/1', event('first'), NO_STREAM);
        expect(await store.readStream('list-alice/2', 10)).toEqual([]);
        expect(await store.readEvent(position + 1_000_000n)).toBeUndefined();
      });

      test('backwards returns the newest events first, page by page, each event once', async ({ store }) => {
        await fill(store, 45);
        const log = await everything(store);
        const pages = await backwards(store, 10);
        expect(pages.flat()).toEqual(log.toReversed());
        for (const page of pages) expect(page.length).toBeLessThanOrEqual(10);
      });

      test('backwards starts before the position of an event', async ({ store }) => {
        await fill(store, 5);
        const log = await everything(store);
        const readBefore = async (position?: Position) =>
          (await backwards(store, 10, { before: position })).flat();
        expect(await readBefore(log[3]?.position)).toEqual([log[2], log[1], log[0]]);
        expect(await readBefore(log[0]?.position)).toEqual([]);
        const atStart = { events: [], position: START, isEnd: true };
        expect(await store.readBackwards({ before: START, limit: 10 })).toEqual(atStart);
      });

      test('an empty log returns nothing, forwards and backwards', async ({ store }) => {
        expect(await everything(store)).toEqual([]);
        expect((await backwards(store, 10)).flat()).toEqual([]);
      });

      test('backwards with a prefix returns only events of those streams', async ({ store }) => {
        const streams = ['list-a/1', 'list-b/1', 'list-a/2', 'list-a0/1', 'list-a', 'list-a/🌱', 'list-A/1'];
        for (const stream of [...streams, 'list-a.', 'list-a/', 'list-é/1', 'list-é/🌱'])
          await store.append(stream, event(stream), NO_STREAM);
        const read = async (prefix: string) => names((await backwards(store, 10, { prefix })).flat());
        expect(await read('list-a/')).toEqual(['list-a/', 'list-a/🌱', 'list-a/2', 'list-a/1']);
        expect(await read('list-a/2')).toEqual(['list-a/2']);
        expect(await read('list-é')).toEqual(['list-é/🌱', 'list-é/1']);
        expect(await read('list-c/')).toEqual([]);
        expect(await read('')).toHaveLength(streams.length + 4);
      });

      test('forwards with a prefix leaves out no event of those streams', async ({ store }) => {
        for (const user of ['alice', 'bob', 'dave']) await fill(store, 3, user);
        for (const prefix of ['list-alice/', 'list-bob/2', 'list-carol/', '']) {
          const expected = (await everything(store)).filter(({ stream }) => stream.startsWith(prefix));
          const found = (await forwards(store, 2, prefix)).flat();
          expect(found.filter(({ stream }) => stream.startsWith(prefix))).toEqual(expected);
        }
      });

      test('ends a page of large events early, forwards and backwards', async ({ store }) => {
        for (let i = 0; i < 8; i++)
          await store.append(`list-alice/${i}`, event('x'.repeat(60_000)), NO_STREAM);
        const log = await everything(store);
        for (const pages of [await forwards(store, 500), (await backwards(store, 500)).toReversed()]) {
          for (const page of pages) expect(page.length).toBeLessThanOrEqual(5);
          expect(pages.flat().sort((a, b) => Number(a.position - b.position))).toEqual(log);
        }
      });

      test('continues after an event that is larger than a page', async ({ store }) => {
        for (let i = 0; i < 3; i++)
          await store.append(`list-alice/${i}`, event('x'.repeat(PAGE_LENGTH)), NO_STREAM);
        const log = await everything(store);
        expect((await forwards(store, 500)).flat()).toEqual(log);
        expect((await backwards(store, 500)).flat()).toEqual(log.toReversed());
      });

      test('backwards during appends misses and repeats no event', async ({ store }) => {
        await fill(store, 30);
        const log = await everything(store);
        let i = 0;
        const append = () => store.append(`list-bob/${i++}`, event('later'), NO_STREAM);
        const pages = await backwards(store, 7, { between: append });
        expect(i).toBeGreaterThan(3);
        expect(ids(pages.flat())).toEqual(ids(log.toReversed()));
      });

      test('the end is the position of the last event', async ({ store }) => {
        const before = await store.lastPosition();
        const { position } = await store.append('list-alice/1', event('first'), NO_STREAM);
        expect(position).toBeGreaterThan(before);
        expect(await store.lastPosition()).toBe(position);
      });
    });

    describe('subscribing', () => {
      test('yields every event in log order and then reports that it has caught up, from any start', async ({
        store,
      }) => {
        await fill(store, 502);
        const all = await everything(store);
        expect(all).toHaveLength(502);
        const positions = all.map(({ position }) => position);
        expect(positions).toEqual([...new Set(positions)].sort((a, b) => Number(a - b)));
        for (const start of [0, 1, 2, 501])
          expect(ids(await everything(store, positions[start]))).toEqual(ids(all.slice(start + 1)));
      });

      test('from any position, during appends, misses and repeats no event', async ({ store }) => {
        await fill(store, 2);
        const middle = await store.lastPosition();
        const following = collect(store, 301, middle);
        const fromStart = collect(store, 302);
        await fill(store, 300, 'bob');
        await store.append('list-bob/last', event('last'), NO_STREAM);
        const log = ids(await everything(store));
        expect(ids(await fromStart)).toEqual(log.slice(0, 302));
        expect(ids(await following)).toEqual(log.slice(2));
      });

      test('ends when aborted while it waits or before it starts', async ({ store }) => {
        const stop = new AbortController();
        const waiting = drain(store, stop.signal);
        await store.append('list-alice/1', event('first'), NO_STREAM);
        stop.abort();
        expect(await waiting).toBeLessThanOrEqual(1);
        expect(await drain(store, AbortSignal.abort())).toBe(0);
      });

      test('keeps the store usable after an early break', async ({ store }) => {
        await fill(store, 3);
        for await (const _ of store.subscribe({ after: START, signal: new AbortController().signal })) break;
        await store.append('list-bob/1', event('later'), NO_STREAM);
        expect(await everything(store)).toHaveLength(4);
      });
    });

    describe('closing', () => {
      test('ends subscriptions, resolves every append, and keeps the log and its ID for the next opening', async () => {
        const store = await openNew();
        await fill(store, 10);
        const earlier = names(await everything(store));
        const logId = await store.logId();
        const subscription = drain(store, new AbortController().signal);
        const appends = [1, 2, 3].map((i) => store.append(`list-bob/${i}`, event(`bob ${i}`), NO_STREAM));
        await store.close();
        await subscription;
        for (const { status } of await Promise.allSettled(appends)) expect(status).toBe('fulfilled');
        await store.close(); // idempotent
        const append = store.append('list-bob/4', event('late'), NO_STREAM);
        await expect(append).rejects.toThrow(StoreUnavailable);
        const again = await open(store);
        onTestFinished(() => again.close());
        const kept = names(await everything(again));
        expect(kept.slice(0, 10)).toEqual(earlier);
        expect(kept.slice(10).sort()).toEqual(['bob 1', 'bob 2', 'bob 3']);
        expect(await again.logId()).toBe(logId);
      });
    });
  });
}

/**
 * Starts reads of a store, pauses them after `after` events, interrupts them, and resumes them. Resolves with the
 * results of the reads.
 */
export type Interrupted = <T>(
  store: EventStore,
  after: number,
  reads: () => Promise<T>[],
) => Promise<Promise<T>[]>;

/** The contract of every event store whose reads can be interrupted; `interruptions` are named by their causes. */
export function interruptedReadsContract(
  name: string,
  open: Open,
  interruptions: Record<string, Interrupted>,
): void {
  describe.each(Object.entries(interruptions))(`reads ${name} while %s`, (_, interrupted) => {
    base.each([0, 1, 5, 10])('a read that has %i events is whole, or fails', async (after) => {
      const writer = await open();
      onTestFinished(() => writer.close());
      await fill(writer, 10);
      const log = await everything(writer);
      const [first, last] = [log[0] as RecordedEvent, log[9] as RecordedEvent];
      const store = await open(writer);
      onTestFinished(() => store.close());
      const whole: unknown[] = [
        ids(log),
        ids(log.toReversed()),
        ids([first]),
        last.id,
        await writer.lastPosition(),
        await writer.logId(),
        ids(log),
      ];
      const reads = (): Promise<unknown>[] => [
        store.readAll({ after: START, limit: 500 }).then(({ events }) => ids(events)),
        store.readBackwards({ limit: 500 }).then(({ events }) => ids(events)),
        store.readStream(first.stream, 10).then(ids),
        store.readEvent(last.position).then((event) => event?.id),
        store.lastPosition(),
        store.logId(),
        Array.fromAsync(readToEnd(store, { signal: new AbortController().signal })).then((batches) =>
          batches.flatMap(({ events }) => ids(events)),
        ),
      ];
      const results = await Promise.allSettled(await interrupted(store, after, reads));
      for (const [i, result] of results.entries())
        if (result.status === 'fulfilled') expect([i, result.value]).toEqual([i, whole[i]]);
        else expect([i, result.reason]).toEqual([i, expect.any(StoreUnavailable)]);
    });
  });
}

/** An event with this name. */
export function event(name: string): NewEvent {
  return { id: randomUUID(), type: 'ItemAdded', data: { name }, metadata: { schemaVersion: 1 } };
}

async function expectWrongRevision(store: EventStore, revision: bigint | typeof NO_STREAM): Promise<void> {
  const append = store.append('list-alice/1', event('refused'), revision);
  await expect(append).rejects.toThrow(WrongExpectedRevision);
}

/** The events of the log after a position, until the subscription has caught up. */
export async function everything(store: EventLog, after: Position = START): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  const stop = new AbortController();
  for await (const { events, caughtUp } of store.subscribe({ after, signal: stop.signal })) {
    found.push(...events);
    if (caughtUp) stop.abort();
  }
  return found;
}

type Backwards = { before?: Position | undefined; prefix?: string; between?: () => Promise<unknown> };

/** The pages of events, up to the end of the log. */
const forwards = (store: EventLog, limit: number, prefix?: string): Promise<RecordedEvent[][]> =>
  pages((after = START) => store.readAll({ after, limit, prefix }));

/** The pages of events before a position, up to the start of the log. */
const backwards = (store: EventLog, limit: number, { before, prefix, between }: Backwards = {}) =>
  pages((position = before) => store.readBackwards({ before: position, limit, prefix }), between);

/** The pages of a read, each from the position of the previous page, with a call in between. */
async function pages(read: (from?: Position) => Promise<Page>, between?: () => Promise<unknown>) {
  const found: RecordedEvent[][] = [];
  const positions = new Set<Position>();
  for (let page = await read(); ; page = await read(page.position)) {
    found.push([...page.events]);
    if (page.isEnd) return found;
    expect(positions).not.toContain(page.position);
    positions.add(page.position);
    await between?.();
  }
}

async function collect(store: EventStore, count: number, after: Position = START): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  const stop = new AbortController();
  for await (const { events } of store.subscribe({ after, signal: stop.signal })) {
    found.push(...events);
    if (found.length >= count) stop.abort();
  }
  return found.slice(0, count);
}

async function drain(store: EventStore, signal: AbortSignal): Promise<number> {
  let seen = 0;
  for await (const { events } of store.subscribe({ after: START, signal })) seen += events.length;
  return seen;
}

async function fill(store: EventStore, count: number, user = 'alice'): Promise<void> {
  const append = (i: number) => store.append(`${STREAM_PREFIX}${user}/${i}`, event(`${i}`), NO_STREAM);
  const all = Array.from({ length: count }, (_, i) => i);
  for (let i = 0; i < count; i += PORTION) await Promise.all(all.slice(i, i + PORTION).map(append));
}

function names(events: RecordedEvent[]): unknown[] {
  return events.map(({ data }) => (data as { name: string }).name);
}

function ids(events: readonly RecordedEvent[]): string[] {
  return events.map(({ id }) => id);
}
