import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { FakeEventStoreDb } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { processOver } from '../support/eventStoreDbProcess.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { ready, USERS, untilAvailable } from '../support/instances.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

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

/** Concurrent requests per user. */
const WRITERS = 8;

test('a service killed repeatedly loses no acknowledged plant, with or without its data directory', async () => {
  const { url } = await startFakeServer();
  const DATA_DIR = tempDir();
  const acknowledged = { alice: new Set<string>(), bob: new Set<string>() };
  let nextId = 1;
  for (const lifetime of [1, 200, 500]) {
    const service = await processOver(url, { DATA_DIR });
    const lifetimeOver = Promise.withResolvers<void>();
    let left = lifetime;
    const write = async (user: (typeof USERS)[number]): Promise<void> => {
      for (;;) {
        const id = nextId++;
        const name = `${user}'s plant ${id}`;
        const response = await untilAvailable(() => service[user].create(id, { name }));
        expect(response.status).toBe(200);
        acknowledged[user].add(name);
        if (--left === 0) lifetimeOver.resolve();
      }
    };
    const writing = USERS.flatMap((user) => Array.from({ length: WRITERS }, () => write(user)));
    const ends = Promise.allSettled(writing);
    await Promise.race([lifetimeOver.promise, ...writing]); // writing ends early only on failure
    await service.kill();
    for (const { reason } of (await ends) as PromiseRejectedResult[])
      expect(reason).toBeInstanceOf(TypeError); // fetch: the connection was closed
  }
  for (const dir of [DATA_DIR, tempDir()]) {
    const service = await serviceOver(url, { DATA_DIR: dir });
    await ready(service);
    for (const user of USERS) {
      const names = (await service[user].list()).map(({ name }) => name);
      expect(new Set(names).size).toBe(names.length);
      expect(acknowledged[user].size).toBeGreaterThan(0);
      expect([...acknowledged[user]].filter((name) => !names.includes(name))).toEqual([]);
    }
    await service.close();
  }
});
