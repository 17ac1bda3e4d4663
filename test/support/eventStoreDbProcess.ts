import { type Ended, startServer } from './process.ts';
import { client } from './service.ts';
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
