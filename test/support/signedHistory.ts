import { existsSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { openLogFile } from '../../packages/event-log/src/sqlite/file.ts';
import { loadExistingLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';
import { merkleTreeFile } from '../../projections/views.ts';
import { expectRefused, runCli } from './cli.ts';
import { untilAvailable } from './instances.ts';
import { appendTo, eventId, plantOf, writeTo } from './logs.ts';
import { refusedWith } from './refusal.ts';
import { startServiceWithTree } from './service.ts';
import { startFakeServer } from './stores.ts';
import { tempDir } from './tempDir.ts';

/** Events of alice that create plants with these names. */
const plants = (names: readonly string[]) =>
  names.map((name, i) => ({ ...plantOf('alice', i + 1, name), id: eventId(i + 1) }));

type Rewrite = (names: readonly string[]) => Promise<Record<string, string>>;
/** The log of a data directory, which can be rewritten while no service runs; returns its settings. */
export type Log = {
  dir: string;
  /** The same log, which has these events now. */
  rewrite: Rewrite;
  /** Another log in its place. */
  replace: Rewrite;
};

type Service = Awaited<ReturnType<typeof startServiceWithTree>>;
const NAMES = ['Fern', 'Moss', 'Oak'];
const CONTRADICTION = /^the log contradicts its last signed checkpoint/;
export const contradictions = ({ log }: Service) =>
  log().filter(({ level, msg }) => level === 50 && CONTRADICTION.test(msg));

/** Requests of an auditor, repeated while the tree is behind. */
export function auditor({ as }: Pick<Service, 'as'>) {
  const { request } = as('carol', 'audit');
  /** Repeats a request while the tree is behind. */
  const get = async (path: string): Promise<Response> => {
    for (;;) {
      const response = await request(path);
      if (response.status !== 503 || ((await response.clone().json()) as { error: number }).error !== 50302)
        return response;
    }
  };
  return { get, request, checkpoint: async () => (await get('/checkpoint')).text() };
}

/** Starts a service, gets its checkpoint and stops it. */
export async function signed(env: Record<string, string>): Promise<string> {
  const service = await startServiceWithTree(env);
  const note = await auditor(service).checkpoint();
  await service.close();
  return note;
}

/** The files of what was signed in a directory. */
export function signedFile(dir: string): string {
  const { verifierKey } = loadExistingLogKey({
    logKeyFile: join(dir, 'log-key.json'),
    logOrigin: 'urn:plant-store',
    keyFile: join(dir, 'key.json'),
  });
  return join(dir, `checkpoint-${verifierKey.id}`);
}

/** What happens to a log of three plants, and its size then. */
export const CASES: [what: string, change: (log: Log) => ReturnType<Rewrite>, size: number][] = [
  ['an altered last event', ({ rewrite }) => rewrite(['Fern', 'Moss', 'Elm']), 3],
  ['its last event removed', ({ rewrite }) => rewrite(['Fern', 'Moss']), 2],
  ['been replaced by another one', ({ replace }) => replace(['Ash', 'Yew', 'Ivy', 'Rue']), 4],
  ['an altered event, and more', ({ rewrite }) => rewrite(['Fern', 'Elm', 'Oak', 'Ivy']), 4],
  ['no events any more', ({ rewrite }) => rewrite([]), 0],
];

/** A log in SQLite. */
export const openEmbeddedLog = async (): Promise<Log> => {
  const DATA_DIR = tempDir();
  return {
    dir: DATA_DIR,
    async rewrite(names) {
      using db = openLogFile(join(DATA_DIR, 'log.db'));
      const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all();
      for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
      db.exec('DELETE FROM events');
      for (const { sql } of triggers) db.exec(`${sql}`);
      db.close();
      appendTo(DATA_DIR, ...plants(names));
      return { DATA_DIR };
    },
    async replace(names) {
      for (const part of ['log.db', 'log.db-wal', 'log.db-shm'])
        rmSync(join(DATA_DIR, part), { force: true });
      appendTo(DATA_DIR, ...plants(names));
      return { DATA_DIR };
    },
  };
};

/** A log in EventStoreDB. */
export const openEventStoreDbLog = async (): Promise<Log> => {
  const DATA_DIR = tempDir();
  const serve = async (names: readonly string[], identity: string) => {
    const server = await startFakeServer();
    server.write('plantstore', { type: 'LogBegun', id: identity });
    writeTo(server, ...plants(names));
    return { DATA_DIR, EVENTSTOREDB_URL: server.url };
  };
  return {
    dir: DATA_DIR,
    rewrite: (names) => serve(names, eventId(1_000)),
    replace: (names) => serve(names, '10000000-0000-7000-8000-123456789abc'),
  };
};

/** Tests that a service signs nothing that contradicts what it has signed. */
export function testSignedHistory(open: () => Promise<Log>, cases: typeof CASES): void {
  test.each(cases)('nothing is signed for a log that has %s', async (_, change, size) => {
    const log = await open();
    const note = await signed(await log.rewrite(NAMES));
    expect(readFileSync(signedFile(log.dir), 'utf8')).toBe(note);

    const env = await change(log);
    const service = await startServiceWithTree(env);
    const { get, request } = auditor(service);
    const message = await refusedWith(50304, await get('/checkpoint'));
    expect(message).toMatch(/^The log contradicts a checkpoint that it has signed/);
    if (size > 0) await refusedWith(50304, await get('/proofs/plants?id=1&user=alice'));
    const replay = await request('/events');
    expect([replay.status, replay.headers.get('checkpoint')]).toEqual([200, null]);
    expect((await replay.text()).split('\n')).toHaveLength(size + 1);
    const listed = await untilAvailable(() => service.as('alice').get());
    expect(await listed.json()).toHaveLength(size);
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
    await refusedWith(50304, await get('/checkpoint'));
    expect(contradictions(service)).toMatchObject([
      {
        signed: expect.stringMatching(/^3:[\da-f]{64}$/),
        log: expect.stringMatching(RegExp(`^${size}:[\\da-f]{64}$`)),
      },
    ]);
    expect((await service.as('bob').create(9, { name: 'Late' })).status).toBe(200);
    await refusedWith(50304, await get('/checkpoint'));
    expect(readFileSync(signedFile(log.dir), 'utf8')).toBe(note);
    expect(existsSync(`${merkleTreeFile(log.dir)}.mismatch`)).toBe(true);
    const rebuilding = service.log().find(({ view, copy }) => view === 'merkleTree' && copy);
    expect(rebuilding).toMatchObject({
      msg: 'rebuilding view',
      copy: `${merkleTreeFile(log.dir)}.mismatch`,
    });

    const proof = await runCli(['prove', '--user', 'bob', '--id', '9'], env);
    expectRefused(proof, /the log was signed as 3:[\da-f]{64}, and is now \d:/);
  });

  test('the operator goes on with another key and origin, or restores the log', async () => {
    const log = await open();
    const note = await signed(await log.rewrite(NAMES));
    const env = await log.rewrite(['Elm']);
    const renamed = { ...env, LOG_KEY_FILE: join(tempDir(), 'log-key.json'), LOG_ORIGIN: 'new.example' };
    const service = await startServiceWithTree(renamed);
    expect(await auditor(service).checkpoint()).toMatch(/^new\.example\n1\n/);
    const start = service.log().filter(({ msg }) => /checkpoints start again/.test(msg));
    expect(start).toMatchObject([{ level: 40, histories: [basename(signedFile(log.dir))] }]);
    await service.close();
    expect(await signed(await log.rewrite(NAMES))).toBe(note);
  });
}
