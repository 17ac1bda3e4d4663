import type { EventStoreDBClient } from '@eventstore/db-client';
import { expect, test } from 'vitest';
import { clientRead } from '../../../../test/support/clientRead.ts';
import { PAGE_LENGTH, type Page, START } from '../../src/eventStore.ts';
import { Reader } from '../../src/eventStoreDb/read.ts';

type Content = { data?: unknown; metadata?: unknown };

/** A page of events with these data and metadata, and how many of them were read. */
async function pageOf(contents: readonly Content[]) {
  const events = contents.map((content, i) => ({
    position: { commit: BigInt(i + 1), prepare: BigInt(i + 1) },
    streamId: 'plant-alice/1',
    revision: 0n,
    id: `${i}`,
    type: 'Written',
    data: {},
    metadata: {},
    ...content,
  }));
  let isCancelled = false;
  const cancel = async (): Promise<void> => {
    isCancelled = true;
  };
  const client = { readAll: () => Object.assign(clientRead(events), { cancel }) };
  const reader = new Reader(client as unknown as EventStoreDBClient, 'plant-');
  const page = (await reader.page({ after: START, limit: 500 })) as Page;
  return { ...page, isCancelled };
}

const LARGE = 'x'.repeat(PAGE_LENGTH / 2);

test.each<[string, Content]>([
  ['data', { data: { text: LARGE } }],
  ['metadata', { metadata: { text: LARGE } }],
  ['data that is not JSON', { data: Buffer.alloc(PAGE_LENGTH / 2) }],
])('a page ends after two events with half a page of %s, and the rest is not read', async (_, content) => {
  const { events, isEnd, isCancelled } = await pageOf([content, content, content]);
  expect([events.length, isEnd, isCancelled]).toEqual([2, false, true]);
});

test('an event whose data is nested too deeply to be sent between threads has none', async () => {
  let data = {};
  for (let level = 0; level < 20_000; level++) data = { 1: data };
  const { events, isEnd } = await pageOf([{ data }, {}]);
  expect([events[0]?.data, events[1]?.data, isEnd]).toEqual([undefined, {}, true]);
});
