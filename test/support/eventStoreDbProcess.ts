import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { FakeEventStoreDb } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { serviceOver } from './eventStoreDbService.ts';
import { ready, USERS, untilAvailable } from './instances.ts';
import { type Ended, startServer } from './process.ts';
import { client } from './service.ts';
import { startFakeServer } from './stores.ts';
import { tempDir } from './tempDir.ts';

/** The service over EventStoreDB as a process, with clients of its users. */
export async function processOver(EVENTSTOREDB_URL: string, env: Record<string, string> = {}) {
  const { DATA_DIR = tempDir() } = env;
  const server = await startServer({ env: { EVENTSTOREDB_URL, ...env, DATA_DIR } });
  const as = client(server.url, DATA_DIR);
  const messages = (): string[] =>
    [...server.stdout().matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line).msg);
  const terminate = (): Promise<Ended> => {
    process.kill(server.pid, 'SIGTERM');
    return server.ended;
  };
  return { ...server, alice: as('alice'), bob: as('bob'), messages, terminate };
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

/** Concurrent requests per user. */
const WRITERS = 8;

/**
 * Kills the service under load once per lifetime, after that number of acknowledged plants. When it is
 * restarted, with its data directory or another one, it has all of them once.
 */
export async function killUnderLoad(lifetimes: readonly number[]): Promise<void> {
  const { url } = await startFakeServer();
  const DATA_DIR = tempDir();
  const acknowledged = { alice: new Set<string>(), bob: new Set<string>() };
  let nextId = 1;
  for (const lifetime of lifetimes) {
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
      const listed = (await service[user].list()).map(({ name }) => name);
      expect(new Set(listed).size).toBe(listed.length);
      expect(acknowledged[user].size).toBeGreaterThan(0);
      expect([...acknowledged[user]].filter((name) => !listed.includes(name))).toEqual([]);
    }
    await service.close();
  }
}
