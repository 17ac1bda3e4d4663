import { expect } from 'vitest';
import type { FakeEventStoreDb } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { untilAvailable } from './instances.ts';
import { type Plant, startService } from './service.ts';
import { startFakeServer } from './stores.ts';

/** The service over EventStoreDB, with clients of its users. */
export async function serviceOver(EVENTSTOREDB_URL: string, env: Record<string, string> = {}) {
  const service = await startService({ EVENTSTOREDB_URL, ...env });
  const readiness = () => fetch(`${service.url}/health/ready`);
  return {
    ...service,
    alice: service.as('alice'),
    bob: service.as('bob'),
    readiness,
    isReady: async () => (await readiness()).status === 200,
    messages: () => service.log().map(({ msg }): string => msg),
  };
}

type User = Awaited<ReturnType<typeof serviceOver>>['alice'];

/** The plants of a user, as soon as the service can list them. */
export async function listed({ get }: Pick<User, 'get'>): Promise<Plant[]> {
  return (await untilAvailable(() => get())).json() as Promise<Plant[]>;
}

/** Creates a plant at the first attempt; returns its Log-Position. */
export async function created({ create }: User, id: number, name: string): Promise<string> {
  const response = await create(id, { name });
  expect(response.status).toBe(200);
  return positionIn(response);
}

/** A stopped server, which listens at its URL after restart(). */
export async function startFakeServerLater(): Promise<FakeEventStoreDb> {
  const server = await startFakeServer();
  await server.stop();
  return server;
}

export const positionIn = ({ headers }: Response): string => headers.get('log-position') ?? '';
