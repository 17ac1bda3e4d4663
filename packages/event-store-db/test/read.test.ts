import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PAGE_LENGTH, START } from '../../event-log/src/eventStore.ts';
import { openClient } from '../src/connectionString.ts';
import { Reader } from '../src/read.ts';
import type { EventToWrite, FakeEvent } from '../src/testing/server.ts';

/** A reader of a server with these events, each in a stream of its own. */
async function readerOf(events: readonly EventToWrite[]) {
  const server = await startFakeServer();
  for (const [i, event] of events.entries()) server.write(`plant-alice/${i}`, event);
  const client = openClient(server.url);
  onTestFinished(() => client.dispose());
  return { server, reader: new Reader(client) };
}

const LARGE = 'x'.repeat(PAGE_LENGTH / 2);
const ALL = { limit: 500, prefix: 'plant-' };

test.each<[string, EventToWrite]>([
  ['data', { data: { text: LARGE } }],
  ['metadata', { metadata: { text: LARGE } }],
  ['data that is not JSON', { data: Buffer.alloc(PAGE_LENGTH / 2), contentType: 'application/octet-stream' }],
])('a page ends after two events with half a page of %s, and the rest is not read', async (_, content) => {
  const { reader } = await readerOf([content, content, content]);
  const page = await reader.page({ after: START, ...ALL });
  expect([page?.events.length, page?.isEnd]).toEqual([2, false]);
});

test('data that is nested too deeply to be sent between threads is its bytes', async () => {
  const data = '{"1":'.repeat(20_000) + '{}'.padEnd(20_002, '}');
  const { reader } = await readerOf([{ data }, {}]);
  const { events = [], isEnd } = (await reader.page({ after: START, ...ALL })) ?? {};
  expect([events[0]?.data, events[1]?.data, isEnd]).toEqual([Uint8Array.from(Buffer.from(data)), {}, true]);
});

test('data that is not JSON is bytes, and malformed JSON is its text', async () => {
  const { reader } = await readerOf([
    { data: Buffer.from([1, 2]), contentType: 'application/octet-stream', metadata: Buffer.from([0xff]) },
    { data: '{"a":' },
  ]);
  const { events = [] } = (await reader.page({ after: START, ...ALL })) ?? {};
  expect(events.map(({ data, metadata }) => [data, metadata])).toEqual([
    [Uint8Array.of(1, 2), Uint8Array.of(0xff)],
    ['{"a":', undefined],
  ]);
});

test('a page whose positions are out of order fails', async () => {
  const { server, reader } = await readerOf([{}, {}, {}]);
  (server.log.all as FakeEvent[]).reverse();
  await expect(reader.page({ after: START, ...ALL })).rejects.toThrow('out of order');
  await expect(reader.pageBackwards(ALL)).rejects.toThrow('out of order');
});

describe('a page of a prefix', () => {
  test('requests only its own events from the server, in a single read', async () => {
    const { server, reader } = await readerOf([{}, {}, {}]);
    for (let i = 0; i < 1_000; i++) server.write(`other-${i}`);
    server.write('plant-bob/1');
    const { read, sent } = { ...server.calls };
    const after = await reader.page({ after: START, limit: 2, prefix: 'plant-bob/' });
    const before = await reader.pageBackwards({ limit: 2, prefix: 'plant-bob/' });
    for (const page of [after, before])
      expect(page).toMatchObject({ events: [{ stream: 'plant-bob/1' }], isEnd: true });
    expect([server.calls.read - read, server.calls.sent - sent]).toEqual([2, 2]);
  });

  test('ends with its limit: the server does not search on for another event', async () => {
    const { server, reader } = await readerOf([{}, {}]);
    const page = await reader.page({ after: START, limit: 2, prefix: 'plant-' });
    expect([page?.events.length, page?.isEnd]).toEqual([2, false]);
    await expect.poll(() => server.openReads).toBe(0);
  });
});
