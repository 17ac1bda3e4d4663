import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { FakeEventStoreDb } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { untilAvailable } from './instances.ts';
import { startServer } from './server.ts';
import { startFakeServer } from './stores.ts';

/** The service over EventStoreDB as a process, with clients of its users. */
export async function processOver(EVENTSTOREDB_URL: string, env: Record<string, string> = {}) {
  const server = await startServer({ env: { EVENTSTOREDB_URL, ...env } });
  const messages = (): string[] =>
    [...server.stdout().matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line).msg);
  return { ...server, alice: server.as('alice'), bob: server.as('bob'), messages };
}

type Ending = {
  /** Injects a failure after the first plant; if absent, the server is never available. */
  fail?: (server: FakeEventStoreDb) => unknown;
  /** The delay of the signal after a POST, in milliseconds. */
  later: number;
};

/** Expects that SIGTERM stops the service gracefully with a POST in flight. */
export async function expectGracefulEnd({ fail, later }: Ending): Promise<void> {
  const server = await startFakeServer();
  if (!fail) await server.stop();
  const service = await processOver(server.url);
  if (fail) expect((await untilAvailable(() => service.alice.create(1, { name: 'Fern' }))).status).toBe(200);
  await fail?.(server);
  const inFlight = service.alice.create(2, { name: 'Ivy' }).then(
    ({ status }) => status,
    () => 'cut',
  );
  await pause(later);
  expect(await service.terminate()).toEqual({ code: 0, signal: null });
  expect([200, 503, 'cut']).toContain(await inFlight);
  const cut = 'closed connections of requests in flight';
  const steps = service.messages().filter((msg) => ['closing', cut, 'closed'].includes(msg));
  expect(steps).toEqual(['closing', ...(steps.includes(cut) ? [cut] : []), 'closed']);
}
