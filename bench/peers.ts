import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { measureLoad, type Sample, type Server, startServer } from './measure.ts';
import { POSTGRESQL, startPostgreSql } from './postgresql.ts';

// What people would take for the plant store's two operations instead.

type Database = { env?: Record<string, string>; pids: number[]; stop?: () => Promise<void> };
/** `start` returns its database, or why there is none. */
type Peer = { name: string; args: string[]; start?: () => Promise<Database | string> };
/** A load on a server, to be measured once a round. */
export type Subject = { part: string; name: string; measure: () => Promise<Sample>; samples: Sample[] };

export const PEERS: Peer[] = [
  { name: 'better-sqlite3, commit per request', args: ['bench/peers/betterSqlite3.ts', 'request'] },
  { name: 'better-sqlite3, commit per turn', args: ['bench/peers/betterSqlite3.ts', 'turn'] },
  { name: 'PostgreSQL', args: ['bench/peers/postgresql.ts'], start: postgreSql },
  { name: 'emmett, Pongo', args: ['bench/peers/emmett.ts'], start: postgreSql },
  { name: 'message-db', args: ['bench/peers/messageDb.ts'], start: messageDb },
  { name: 'EventStoreDB client', args: ['bench/peers/eventStoreDb.ts'], start: eventStoreDb },
];
export const PEER_USERS = 100;
const CONNECTIONS = [1, 64, 256];
const PAGE_SIZE = 100;
const OPERATIONS = [
  { method: 'POST', query: '' },
  { method: 'GET', query: `?limit=${PAGE_SIZE}` },
] as const;

type Context = { root: string; dir: string; env: Record<string, string>; resources: AsyncDisposableStack };
type Options = Context & { own: Peer; tokenFile: string; seconds: number };

/** Starts this checkout and its peers, each with plants to list. Skips peers without their database. */
export async function peerSubjects({ own, tokenFile, seconds, ...context }: Options): Promise<Subject[]> {
  const servers: { name: string; server: Server }[] = [];
  for (const peer of [own, ...PEERS]) {
    const { name } = peer;
    const server = await startPeer(peer, context);
    if (typeof server === 'string') {
      console.log(`skipping ${name}: ${server}`);
      continue;
    }
    console.log(`creating plants: ${name}`);
    await createPlants(server, tokenFile);
    servers.push({ name, server });
  }
  return OPERATIONS.flatMap((operation) =>
    CONNECTIONS.flatMap((connections) =>
      servers.map(({ name, server }): Subject => {
        const load = { ...operation, connections, seconds, tokenFile };
        const part = `${operation.method} ${connections}`;
        return { part, name, measure: () => measureLoad(server, load), samples: [] };
      }),
    ),
  );
}

/** Starts a peer with a database of its own; returns why it cannot be started if that is not available. */
export async function startPeer(
  peer: Peer,
  { root, dir, env, resources }: Context,
): Promise<Server | string> {
  const database = (await peer.start?.()) ?? { pids: [] };
  if (typeof database === 'string') return database;
  if (database.stop) resources.defer(database.stop);
  const data = join(dir, peer.name);
  mkdirSync(data);
  const { args } = peer;
  const server = await startServer({ root, args, env: { ...env, ...database.env, DATA_DIR: data } });
  resources.defer(server.stop);
  return { ...server, backends: database.pids };
}

/** Creates plants until each user can list a page of them. */
async function createPlants(server: Server, tokenFile: string): Promise<void> {
  const tokens = readFileSync(tokenFile, 'utf8').split('\n');
  const load = { method: 'POST', connections: 64, seconds: 2, tokenFile } as const;
  do await measureLoad(server, load);
  while ((await Promise.all(tokens.map((token) => listed(server, token)))).some((n) => n < PAGE_SIZE));
}

async function listed({ url }: Server, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${url}/plants?limit=${PAGE_SIZE}`, { headers });
  return ((await response.json()) as unknown[]).length;
}

async function postgreSql(): Promise<Database | string> {
  if (POSTGRESQL === undefined) return 'it needs PostgreSQL: apt-get install postgresql';
  const { url, pid, stop } = await startPostgreSql(POSTGRESQL);
  return { env: { DATABASE_URL: `${url}/postgres` }, pids: [pid], stop };
}

async function messageDb(): Promise<Database | string> {
  if (POSTGRESQL === undefined) return 'it needs PostgreSQL: apt-get install postgresql';
  const { url, env, pid, stop } = await startPostgreSql(POSTGRESQL);
  const dir = dirname(fileURLToPath(import.meta.resolve('@eventide/message-db/package.json')));
  execFileSync('bash', [join(dir, 'database/install.sh')], { env, stdio: 'ignore' });
  return { env: { DATABASE_URL: `${url}/message_store` }, pids: [pid], stop };
}

async function eventStoreDb(): Promise<Database | string> {
  const { EVENTSTOREDB_TEST_URL, EVENTSTOREDB_TEST_PID } = process.env;
  if (EVENTSTOREDB_TEST_URL && EVENTSTOREDB_TEST_PID) return { pids: [Number(EVENTSTOREDB_TEST_PID)] };
  return 'it needs EVENTSTOREDB_TEST_URL, and EVENTSTOREDB_TEST_PID, the process of that server';
}

const MEASURES = [
  { of: 'perSecond', title: '/s', digits: 0, moreIsBetter: true },
  { of: 'cpu', title: ', CPU µs', digits: 0 },
  { of: 'p50', title: ', p50 ms', digits: 1 },
  { of: 'p99', title: ', p99 ms', digits: 1 },
  { of: 'memory', title: ', MiB', digits: 0 },
] as const;

/**
 * The medians as a table in Markdown: a column for each server, and in a cell a figure for each number of
 * connections. A peer's figure is bold where it is better in the median of the rounds.
 */
export function peerTable(subjects: Subject[], median: (values: number[]) => number): string {
  const names = [...new Set(subjects.map(({ name }) => name))];
  const samplesOf = (part: string, name?: string): Sample[] =>
    subjects.find((subject) => subject.part === part && subject.name === name)?.samples ?? [];
  const rows = OPERATIONS.flatMap(({ method }) =>
    MEASURES.map(({ of, title, digits, ...measure }) => {
      const cells = names.map((name) =>
        CONNECTIONS.map((connections) => {
          const part = `${method} ${connections}`;
          const samples = samplesOf(part, name);
          const own = samplesOf(part, names[0]);
          const ratio = median(samples.map((sample, round) => sample[of] / (own[round]?.[of] ?? Number.NaN)));
          const figure = median(samples.map((sample) => sample[of])).toFixed(digits);
          return ('moreIsBetter' in measure ? ratio > 1 : ratio < 1) ? `**${figure}**` : figure;
        }).join(' · '),
      );
      const label = `${method}${title}`;
      return [cells.some((cell) => cell.includes('**')) ? `**${label}**` : label, ...cells];
    }),
  );
  return [['', ...names], ['---', ...names.map(() => '---')], ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}
