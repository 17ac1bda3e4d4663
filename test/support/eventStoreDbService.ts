import { startDouble } from '../copy/logs.ts';
import type { EventStoreDbDouble } from './eventStoreDbDouble.ts';
import { startService } from './service.ts';

/** The service over EventStoreDB, with what its users do. */
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

/** A server that is gone, and will be where its URL says once it is restarted. */
export async function startDoubleLater(): Promise<EventStoreDbDouble> {
  const server = await startDouble();
  await server.stop();
  return server;
}

export const positionIn = ({ headers }: Response): string => headers.get('log-position') ?? '';
