import { open } from '@event-sourced/testing/eventStoreDbStore';
import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import { NO_STREAM, type Page, START, StoreUnavailable } from '../../event-log/src/eventStore.ts';
import { event, everything } from '../../event-log/src/testing/contract.ts';
import { openClient } from '../src/connectionString.ts';
import { Reader } from '../src/read.ts';
import type { EventToWrite } from '../src/testing/server.ts';

/** Events that a server from version 25.1 on may have: their properties are JSON at each read. */
const UNREADABLE: [string, EventToWrite][] = [
  ["whose JSON is larger than the client's limit", { data: { text: 'x'.repeat(18 * 2 ** 20) } }],
  ['that the server cannot convert', { isUnreadable: true }],
];

describe.each(UNREADABLE)('an event %s', (_, unreadable) => {
  test('of another program, the last one of the log, affects nothing', async () => {
    slowClock();
    const server = await startFakeServer();
    const before = await open(server.url);
    await before.store.append('plant-alice/1', event('Fern'), NO_STREAM);
    server.write('other-1', unreadable);
    const after = await open(server.url);
    for (const { store } of [before, after]) {
      const last = await store.lastPosition();
      expect((await everything(store)).at(-1)?.position).toBe(last);
      const { position } = await store.append(`plant-bob/${last}`, event('Oak'), NO_STREAM);
      server.write('other-1', unreadable);
      expect(await store.lastPosition()).toBe(position);
      expect((await store.readAll({ after: last, limit: 10 })).events).toHaveLength(1);
      expect((await store.readBackwards({ limit: 1 })).events[0]?.position).toBe(position);
    }
    expect(server.connections).toBe(2);
  });

  test('of another program, the first one of an empty log, affects nothing', async () => {
    const server = await startFakeServer();
    server.write('other-1', unreadable);
    const { store } = await open(server.url);
    const { position } = await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    expect((await everything(store)).map((one) => one.position)).toEqual([position]);
  });

  test('of the log itself is named by the reads that need it, and the events before it are read', async () => {
    const server = await startFakeServer();
    const write = (id: number): bigint => server.write(`plant-alice/${id}`).position;
    const [first, second] = [write(1), write(2)];
    const { position: unread } = server.write('plant-other', unreadable);
    const last = write(3);
    const client = openClient(server.url);
    onTestFinished(() => client.dispose());
    const reader = new Reader(client);
    const positions = (page?: Page) => page?.events.map(({ position }) => position);
    const range = { limit: 10, prefix: 'plant-' };
    const page = await reader.page({ after: START, ...range });
    expect([positions(page), page?.isEnd]).toEqual([[first, second], false]);
    expect(positions(await reader.pageBackwards({ before: unread, ...range }))).toEqual([second, first]);
    const reads = {
      [`after position ${second} of the streams plant-…`]: () => reader.page({ after: second, ...range }),
      [`before position ${last} of the streams plant-…`]: () =>
        reader.pageBackwards({ before: last, ...range }),
      [`at position ${unread} of the log`]: () => reader.at(unread),
    };
    for (const [what, read] of Object.entries(reads))
      await expect(read()).rejects.toMatchObject({
        kind: 'unreadable',
        message: messageOf(`the event ${what}`),
      });
    const stream = reader.stream({ stream: 'plant-other', limit: 10 });
    const what = 'the first event of the stream plant-other';
    await expect(stream).rejects.toMatchObject({ kind: 'unreadable', message: messageOf(what) });
  });
});

const messageOf = (what: string): unknown => expect.stringContaining(`${what} cannot be read: `);

test('the first event of a log, from which an older log has its ID, is named if it cannot be read', async () => {
  const server = await startFakeServer();
  server.write('other-1', { isUnreadable: true });
  server.write('plant-alice/1');
  const { store } = await open(server.url, { timeoutMs: 10_000 });
  const append = store.append('plant-alice/2', event('Fern'), NO_STREAM);
  await expect(append).rejects.toThrow(StoreUnavailable);
  await expect(append).rejects.toThrow(/^the first event of the log cannot be read: /);
});
