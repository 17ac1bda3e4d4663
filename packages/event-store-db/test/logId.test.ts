import { open } from '@event-sourced/testing/eventStoreDbStore';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, test } from 'vitest';
import { NO_LOG_ID, NO_STREAM, StoreUnavailable } from '../../event-log/src/eventStore.ts';
import { event, everything } from '../../event-log/src/testing/contract.ts';
import type { EventToWrite, FakeEventStoreDb } from '../src/testing/server.ts';

const IDENTITY = 'plantstore';

/** A server as it starts: its first event is its own, and a scavenge of a cluster removes it. */
async function newServer() {
  const server = await startFakeServer();
  const first = server.write('$$$scavenges');
  server.write('$$$scavenges');
  return { server, scavenge: () => server.log.scavenge(first), first };
}

/** The log ID that a new instance reads. */
const logIdOn = async ({ url }: FakeEventStoreDb): Promise<string> => (await open(url)).store.logId();

const append = async ({ url }: FakeEventStoreDb, stream: string) =>
  (await open(url)).store.append(stream, event('Fern'), NO_STREAM);

describe('the ID of a log', () => {
  test('is there from its first append on, whatever the server and other programs have written', async () => {
    const { server } = await newServer();
    server.write('other');
    const { store } = await open(server.url);
    expect(await store.logId()).toBe(NO_LOG_ID);
    await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    expect(await store.logId()).toMatch(/^e[\da-f]{12}$/);
    expect(await everything(store)).toHaveLength(1);
  });

  test('is not changed by a scavenge', async () => {
    const { server, scavenge } = await newServer();
    await append(server, 'plant-alice/1');
    const logId = await logIdOn(server);
    scavenge();
    expect(await logIdOn(server)).toBe(logId);
  });

  test('is that of the first event for a log of an earlier version, and stays so', async () => {
    const { server, scavenge, first } = await newServer();
    server.write('plant-alice/1');
    const logId = `e${first.id.slice(-12)}`;
    expect(await logIdOn(server)).toBe(logId);
    expect(server.log.stream(IDENTITY)).toHaveLength(0);
    await append(server, 'plant-alice/2');
    scavenge();
    expect(await logIdOn(server)).toBe(logId);
  });

  test('is the one that another instance stores while it is read', async () => {
    const { server } = await newServer();
    const { store } = await open(server.url);
    server.pauseReadsAfter(1);
    const logId = store.logId();
    await expect.poll(() => server.pausedReads).toBe(1); // the identity stream was not found
    const begun = server.write(IDENTITY, { type: 'LogBegun' });
    server.write('plant-alice/1');
    server.resumeReads();
    expect(await logId).toBe(`e${begun.id.slice(-12)}`);
  });

  test('is the same for instances that append the first events at the same time', async () => {
    const { server } = await newServer();
    await Promise.all([1, 2, 3, 4].map((id) => append(server, `plant-alice/${id}`)));
    expect(server.log.stream(IDENTITY)).toHaveLength(1);
    expect(new Set(await Promise.all([logIdOn(server), logIdOn(server)])).size).toBe(1);
  });

  test('is read and stored once for appends that start together', async () => {
    const { server } = await newServer();
    server.write('other'); // the log is searched for its last event
    const { store } = await open(server.url);
    const { read } = server.calls;
    const users = Array.from({ length: 64 }, (_, i) => `plant-user${i}/1`);
    const appended = await Promise.all(users.map((stream) => store.append(stream, event('Fern'), NO_STREAM)));
    expect(server.log.stream(IDENTITY)).toHaveLength(1);
    expect(server.calls.read - read).toBeLessThanOrEqual(6);
    expect(new Set(appended.map(({ logId }) => logId))).toEqual(new Set([await store.logId()]));
  });

  test.each<[string, EventToWrite]>([
    ['another type', { type: 'Written' }],
    ['an ID with other letters', { type: 'LogBegun', data: { logId: 'ü' } }],
    ['an ID with full stops', { type: 'LogBegun', data: { logId: 'e1.2.3' } }],
    ['a long ID', { type: 'LogBegun', data: { logId: `e${'0'.repeat(100_000)}` } }],
    ['an empty ID', { type: 'LogBegun', data: { logId: '' } }],
    ['an ID that is no text', { type: 'LogBegun', data: { logId: 5 } }],
  ])(
    'is an error if another program has written the first event of its stream, with %s',
    async (_, begun) => {
      const { server } = await newServer();
      server.write(IDENTITY, begun);
      const { store } = await open(server.url);
      for (const call of [store.logId(), store.append('plant-alice/1', event('Fern'), NO_STREAM)]) {
        const error = await call.catch((reason) => reason);
        expect(error).toBeInstanceOf(StoreUnavailable);
        expect(error.message).toContain('the first event of plantstore is not one of the service');
      }
      expect(server.log.stream('plant-alice/1')).toEqual([]);
    },
  );

  test.each(['softDelete', 'truncate', 'maxAge', 'tombstone'] as const)(
    'that an administrator has removed (%s) is an error, and not another log',
    async (how) => {
      const { server } = await newServer();
      await append(server, 'plant-alice/1');
      server.log.delete(IDENTITY, how);
      const events = server.log.all.length;
      const { store } = await open(server.url);
      const lost = 'the log has lost its ID: the first event of plantstore was deleted';
      for (const call of [store.logId(), store.append('plant-alice/2', event('Ivy'), NO_STREAM)]) {
        const error = await call.catch((reason) => reason);
        expect(error).toBeInstanceOf(StoreUnavailable);
        expect(error.message).toContain(lost);
      }
      expect(server.log.all).toHaveLength(events);
    },
  );
});
