import { setTimeout as pause } from 'node:timers/promises';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, test } from 'vitest';
import type { FakeEventStoreDb } from '../../packages/event-store-db/src/testing/server.ts';
import { processOver } from '../support/eventStoreDbProcess.ts';
import { untilAvailable } from '../support/instances.ts';

/** What happens to the server after the first plant, and the milliseconds from a POST to the signal. */
const ENDINGS: [string, ((server: FakeEventStoreDb) => unknown) | undefined, number][] = [
  ['a server that was never available', undefined, 200],
  ['an available server', () => {}, 200],
  ['a server that has just stopped', (server) => server.stop(), 200],
  ['a frozen server', (server) => server.freeze(), 200],
  ['a server that stopped seconds ago', (server) => server.stop(), 3_000],
  ['a server that froze seconds ago', (server) => server.freeze(), 3_000],
];

test.each(ENDINGS)('SIGTERM stops the service gracefully during a POST to %s', async (_, fail, delayMs) => {
  const server = await startFakeServer();
  if (!fail) await server.stop();
  const service = await processOver(server.url);
  if (fail) await untilAvailable(() => service.alice.create(1, { name: 'Fern' }));
  await fail?.(server);
  const inFlight = service.alice.create(2, { name: 'Ivy' }).then(
    ({ status }) => status,
    () => 'cut',
  );
  await pause(delayMs);
  expect(await service.terminate()).toEqual({ code: 0, signal: null });
  expect([200, 503, 'cut']).toContain(await inFlight);
  const cut = 'closed connections of requests in flight';
  const steps = service.messages().filter((msg) => ['closing', cut, 'closed'].includes(msg));
  expect(steps).toEqual(['closing', ...(steps.includes(cut) ? [cut] : []), 'closed']);
});
