import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, onTestFinished, test, vi } from 'vitest';
import { START } from '../../event-log/src/eventStore.ts';
import {
  Client,
  FIRST_REPLY_TIMEOUT_MS,
  MIN_CONNECTION_INTERVAL_MS,
  REOPENING_TIMEOUT_MS,
} from '../src/client.ts';
import { Connection } from '../src/connection.ts';

/** The time that a call has, in milliseconds. */
const CALL_TIMEOUT_MS = 2_000;
const LONG_MS = 600_000;
const HINT = 'check that the server runs, and hosts, tls and tlsCAFile in the connection string';

const within = (ms: number): number => performance.now() + ms;

/** A connection whose thread has started, and its server. */
async function connected() {
  const clock = slowClock();
  const server = await startFakeServer();
  const connection = new Connection(server.url);
  onTestFinished(() => connection.end('the test is over'));
  await connection.started.promise;
  return { clock, server, connection };
}

test('a connection from which nothing is heard during a call ends with it', async () => {
  const { clock, server, connection } = await connected();
  server.freeze();
  const failing = connection.call('readEdge', 'first', CALL_TIMEOUT_MS).catch((error) => error);
  const other = connection.call('next', undefined).catch((error) => error);
  await other; // a reply of the thread is not one of the server, but shows that it lives
  clock.pass(CALL_TIMEOUT_MS);
  expect(await failing).toMatchObject({
    kind: 'transient',
    message: expect.stringMatching(/^no response for \d+ ms$/),
  });
  const again = connection.call('readEdge', 'first', CALL_TIMEOUT_MS).catch(() => {});
  clock.pass(CALL_TIMEOUT_MS);
  await again;
  expect(connection.endReason).toMatch(/^no response/);
});

test('a connection to a server that was never available stays open, and is used once it is', async () => {
  const { server, connection } = await connected();
  await server.stop();
  const read = () => connection.call('readEdge', 'first', CALL_TIMEOUT_MS);
  await expect(read()).rejects.toMatchObject({ kind: 'transient' });
  expect(connection.endReason).toBeUndefined();
  await server.restart();
  expect(await read()).toBeUndefined();
});

test('a page that the server searches for long does not end the connection', async () => {
  const { clock, server, connection } = await connected();
  server.write('plant-alice/1', {});
  server.pauseReadsAfter(1);
  const page = connection.call('readPage', { after: START, limit: 10, prefix: 'plant-' });
  await expect.poll(() => server.pausedReads).toBe(1);
  clock.pass(FIRST_REPLY_TIMEOUT_MS);
  expect(connection.endReason).toBeUndefined();
  server.resumeReads();
  expect((await page)?.events).toHaveLength(1);
});

/** The reads that open connections, as they are called. */
const openings = () => {
  const calls = vi.spyOn(Connection.prototype, 'call');
  onTestFinished(() => calls.mockRestore());
  return calls.mock.calls;
};

test('while the server has never responded, a failed call names what to check', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  server.freeze();
  const opened = openings();
  const client = new Client(server.url);
  onTestFinished(() => client.close());
  const early = client.call('readEdge', 'last', within(CALL_TIMEOUT_MS)).catch((error) => error);
  clock.pass(CALL_TIMEOUT_MS);
  expect(await early).toMatchObject({ message: `no response yet: ${HINT}` });
  await expect.poll(() => opened.length).toBe(1);
  const attempt = client.firstAttempt();
  clock.pass(FIRST_REPLY_TIMEOUT_MS);
  await attempt;
  const late = client.call('readEdge', 'last', within(1)).catch((error) => error);
  clock.pass(1);
  expect(await late).toMatchObject({
    message: expect.stringMatching(new RegExp(`^no response for \\d+ ms: ${HINT}$`)),
  });
});

test('a later connection to a server that has responded before ends soon without a first reply', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  const opened = openings();
  const client = new Client(server.url);
  onTestFinished(() => client.close());
  const first = await client.connected(within(LONG_MS));
  server.freeze();
  first.end('the test replaces it');
  await first.ended.promise;
  const next = client.connected(within(LONG_MS));
  const count = () => {
    clock.pass(MIN_CONNECTION_INTERVAL_MS / 10);
    return opened.length;
  };
  await expect.poll(count).toBe(2);
  expect(opened.map(([, , timeoutMs]) => timeoutMs)).toEqual([FIRST_REPLY_TIMEOUT_MS, REOPENING_TIMEOUT_MS]);
  clock.pass(REOPENING_TIMEOUT_MS);
  server.thaw();
  expect(await next).not.toBe(first);
});

test('calls wait for the next connection, and all continue when it is open', async () => {
  const server = await startFakeServer();
  server.write('plant-alice/1', {});
  const client = new Client(server.url);
  onTestFinished(() => client.close());
  await client.connected(within(LONG_MS));
  await server.stop();
  const reads = [1, 2, 3].map(() => client.call('readEdge', 'first', within(LONG_MS)));
  await server.restart();
  for (const read of reads) expect(await read).toMatchObject({ stream: 'plant-alice/1' });
});
