import { setInterval } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { slowClock } from '../../../../test/support/slowClock.ts';
import { startFakeServer } from '../../../../test/support/stores.ts';
import { START } from '../../src/eventStore.ts';
import {
  Connection,
  DEADLINE_CHECK_INTERVAL_MS,
  FIRST_REPLY_TIMEOUT_MS,
} from '../../src/eventStoreDb/connection.ts';
import { CallFailed } from '../../src/eventStoreDb/protocol.ts';
import {
  ATTEMPT_TIMEOUT_MS,
  MIN_CONNECTION_INTERVAL_MS,
  RetryingClient,
} from '../../src/eventStoreDb/retryingClient.ts';

/** The time that a call has, in milliseconds. */
const CALL_TIMEOUT_MS = 2_000;
const HINT = /^no response for \d+ ms: check that the server runs, and hosts, tls and tlsCAFile/;

/** A connection to a server that does not respond yet, and a call on it that has failed after `ms`. */
async function timedOut(ms: number) {
  const clock = slowClock();
  const server = await startFakeServer();
  server.freeze();
  const connection = new Connection({ url: server.url, prefix: 'plant-' });
  onTestFinished(() => connection.end('the test is over'));
  clock.pass(1); // the thread starts
  const failing = connection.call('readEdge', 'first', CALL_TIMEOUT_MS).catch((error) => error);
  clock.pass(ms);
  return { clock, server, connection, failure: (await failing) as CallFailed };
}

test('a connection is kept as long as its first reply may come, although a call has timed out', async () => {
  const { server, connection, failure } = await timedOut(CALL_TIMEOUT_MS);
  expect(failure).toBeInstanceOf(CallFailed);
  expect(failure).toMatchObject({ kind: 'timeout', message: expect.stringMatching(HINT) });
  expect(connection.endReason).toBeUndefined();
  server.thaw();
  await expect.poll(() => connection.hasReplied).toBe(true); // the late reply to that call
  expect(await connection.call('readEdge', 'first')).toBeUndefined();
  expect(connection.endReason).toBeUndefined();
});

test('a connection whose first reply does not come ends, and names what to check', async () => {
  const { connection, clock } = await timedOut(FIRST_REPLY_TIMEOUT_MS);
  const again = connection.call('readEdge', 'first', CALL_TIMEOUT_MS).catch(() => {});
  clock.pass(FIRST_REPLY_TIMEOUT_MS); // it may have started meanwhile
  await again;
  expect(connection.endReason).toMatch(HINT);
});

test('a page whose events arrive slowly is not taken for a first reply that does not come', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  server.write('plant-alice/1', {});
  server.pauseReadsAfter(1);
  const connection = new Connection({ url: server.url, prefix: 'plant-' });
  onTestFinished(() => connection.end('the test is over'));
  clock.pass(1); // the thread starts
  connection.call('readPage', { after: START, limit: 10 }).catch(() => {});
  await expect.poll(() => server.pausedReads).toBe(1);
  clock.pass(FIRST_REPLY_TIMEOUT_MS);
  await deadlinesAreChecked();
  expect(connection.endReason).toBeUndefined();
});

/** Resolves when each connection has checked its deadlines: timers of the same interval run in their order. */
async function deadlinesAreChecked(): Promise<void> {
  let ticks = 0;
  for await (const _ of setInterval(DEADLINE_CHECK_INTERVAL_MS)) if (++ticks === 3) return;
}

/** A client whose next connection gets no reply, of a server that has responded to the first one. */
async function replaced() {
  const clock = slowClock();
  const server = await startFakeServer();
  const client = new RetryingClient({ url: server.url, prefix: 'plant-' });
  onTestFinished(() => client.close());
  await client.call('readEdge', 'first', CALL_TIMEOUT_MS);
  client.connection.end('the test replaces it');
  server.freeze();
  return { clock, server, client };
}

test('a connection to a server that has responded to an earlier one does not suggest what to check', async () => {
  const { clock, client } = await replaced();
  const failing = client.connection.call('readEdge', 'first', CALL_TIMEOUT_MS).catch((error) => error);
  clock.pass(CALL_TIMEOUT_MS);
  expect(await failing).toMatchObject({ message: expect.stringMatching(/^no response for \d+ ms$/) });
});

test('a connection to a server that has responded to an earlier one ends soon without a first reply, every third one later', async () => {
  const { clock, server, client } = await replaced();
  /** The next connection, once it has reached the server. */
  const nextConnection = async () => {
    const { connections } = server;
    const { connection } = client;
    clock.pass(MIN_CONNECTION_INTERVAL_MS);
    connection.call('readEdge', 'first').catch(() => {});
    await expect.poll(() => server.connections).toBeGreaterThan(connections);
    return connection;
  };
  const hasEndedAfter = async (ms: number, connection: Connection): Promise<boolean> => {
    const expiring = connection.call('readEdge', 'first', ms).catch(() => {});
    clock.pass(ms);
    await expiring;
    return connection.endReason !== undefined;
  };
  const first = await nextConnection();
  expect(await hasEndedAfter(ATTEMPT_TIMEOUT_MS, first)).toBe(true);
  expect(await hasEndedAfter(ATTEMPT_TIMEOUT_MS, await nextConnection())).toBe(true);
  const third = await nextConnection();
  expect(await hasEndedAfter(ATTEMPT_TIMEOUT_MS, third)).toBe(false);
  expect(await hasEndedAfter(ATTEMPT_TIMEOUT_MS, third)).toBe(true);
});
