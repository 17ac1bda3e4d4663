import { startServer } from './server.ts';

/** The service over EventStoreDB as a process, with clients of its users. */
export async function processOver(EVENTSTOREDB_URL: string, env: Record<string, string> = {}) {
  const server = await startServer({ env: { EVENTSTOREDB_URL, ...env } });
  const messages = (): string[] =>
    [...server.stdout().matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line).msg);
  return { ...server, alice: server.as('alice'), bob: server.as('bob'), messages };
}
