import type { FakeEventStoreDb } from '../fakeEventStoreDb/server.ts';
import { startService } from './service.ts';
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

/** A stopped server, which listens at its URL after restart(). */
export async function startFakeServerLater(): Promise<FakeEventStoreDb> {
  const server = await startFakeServer();
  await server.stop();
  return server;
}

export const positionIn = ({ headers }: Response): string => headers.get('log-position') ?? '';
