import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import type { EventStoreDbDouble } from './eventStoreDbDouble.ts';
import { serviceOver } from './eventStoreDbService.ts';
import { answered, ready } from './load.ts';
import { type Ended, startServer } from './process.ts';
import { client } from './service.ts';
import { tempDir } from './tempDir.ts';

/** The service over EventStoreDB as a process, with what its users do. */
export async function processOver(EVENTSTOREDB_URL: string, env: Record<string, string> = {}) {
  const { DATA_DIR = tempDir() } = env;
  const server = await startServer({ env: { EVENTSTOREDB_URL, ...env, DATA_DIR } });
  const as = client(server.url, DATA_DIR);
  const messages = (): string[] =>
    server
      .stdout()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line).msg);
  const terminate = (): Promise<Ended> => {
    process.kill(server.pid, 'SIGTERM');
    return server.ended;
  };
  return { ...server, alice: as('alice'), bob: as('bob'), messages, terminate };
}

type Ending = {
  /** What happens to the server once it has taken a plant; where it is absent, there never was a server. */
  fail?: (server: EventStoreDbDouble) => unknown;
  /** When the signal comes after a POST, in milliseconds. */
  later: number;
};

/** Whatever the server does to a POST in flight, SIGTERM ends the service in good order. */
export async function expectProperEnd({ fail, later }: Ending): Promise<void> {
  const server = await startDouble();
  if (!fail) await server.stop();
  const service = await processOver(server.url);
  if (fail) expect((await answered(() => service.alice.create(1, { name: 'Fern' }))).status).toBe(200);
  await fail?.(server);
  const inFlight = service.alice.create(2, { name: 'Ivy' }).then(
    ({ status }) => status,
    () => 'cut',
  );
  await pause(later);
  expect(await service.terminate()).toEqual({ code: 0, signal: null });
  expect([200, 503, 'cut']).toContain(await inFlight);
  const steps = ['closing', 'connections cut', 'closed'];
  const taken = service.messages().filter((msg) => steps.includes(msg));
  expect(taken).toEqual(steps.filter((step) => step !== 'connections cut' || taken.includes(step)));
}

const USERS = ['alice', 'bob'] as const;
/** Requests that each user has in flight. */
const WRITERS = 8;

/**
 * Kills the service under load, as often as there are lives, each after so many acknowledged plants. Wherever it is
 * started again, on its directory or another one, it has all of them, once.
 */
export async function killUnderLoad(lives: readonly number[]): Promise<void> {
  const { url } = await startDouble();
  const DATA_DIR = tempDir();
  const acknowledged = { alice: new Set<string>(), bob: new Set<string>() };
  let nextId = 1;
  for (const life of lives) {
    const service = await processOver(url, { DATA_DIR });
    const lived = Promise.withResolvers<void>();
    let left = life;
    const write = async (user: (typeof USERS)[number]): Promise<void> => {
      for (;;) {
        const name = `${user}'s plant ${nextId}`;
        const answer = await answered(() => service[user].create(nextId++, { name }));
        expect(answer.status).toBe(200);
        acknowledged[user].add(name);
        if (--left === 0) lived.resolve();
      }
    };
    const writing = USERS.flatMap((user) => Array.from({ length: WRITERS }, () => write(user)));
    const ends = Promise.allSettled(writing);
    await Promise.race([lived.promise, ...writing]); // writing ends early only where it fails
    await service.kill();
    for (const { reason } of (await ends) as PromiseRejectedResult[])
      expect(reason).toBeInstanceOf(TypeError); // fetch's way to say that the connection is gone
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
