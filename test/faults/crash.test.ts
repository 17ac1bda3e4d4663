import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { rowsIn } from '../support/logs.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { startServer } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const USERS = ['alice', 'bob', 'carol'];
const WRITERS = 16;
/** Each is a number of acknowledged plants, the same in every run. */
const LIFETIMES = fc.sample(fc.noBias(fc.integer({ min: 1, max: 300 })), { numRuns: 20, seed: 2026 });

type Acknowledged = { user: string; id: number; name: string; position: number };

test('a server killed twenty times under load keeps and lists every acknowledged plant once', async () => {
  const DATA_DIR = tempDir();
  const writers = Array.from({ length: WRITERS }, (): Acknowledged[] => []);
  let nextId = 1;

  for (const lifetime of LIFETIMES) {
    const server = await startServer({ env: { DATA_DIR } });
    const as = client(server.url, DATA_DIR);
    const lifetimeOver = Promise.withResolvers<void>();
    let left = lifetime;
    /** Creates one plant after the other until the server is killed. */
    const write = async (acknowledged: Acknowledged[], i: number): Promise<void> => {
      const user = USERS[i % USERS.length] as string;
      for (;;) {
        const id = nextId++;
        const name = `${user}'s plant ${id}`;
        const response = await as(user).create(id, { name });
        expect(response.status).toBe(200);
        const position = Number(response.headers.get('log-position')?.split('.')[1]);
        acknowledged.push({ user, id, name, position });
        if (--left === 0) lifetimeOver.resolve();
        await response.text();
      }
    };
    const writing = writers.map(write);
    const ends = Promise.allSettled(writing);
    await Promise.race([lifetimeOver.promise, ...writing]); // writing ends early only on failure
    await server.kill();
    for (const { reason } of (await ends) as PromiseRejectedResult[])
      expect(reason).toBeInstanceOf(TypeError); // fetch: the connection was closed
  }

  const server = await startServer({ env: { DATA_DIR } });
  const lists = await Promise.all(USERS.map((user) => client(server.url, DATA_DIR)(user).list()));
  process.kill(server.pid, 'SIGTERM');
  await server.ended;

  const file = join(DATA_DIR, 'log.db');
  using log = new DatabaseSync(file, { readOnly: true });
  expect(log.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
  const rows = rowsIn(file);
  expect(new Set(rows.map(({ stream }) => stream)).size).toBe(rows.length);
  const kept = new Map(rows.map((row) => [row.stream, { ...row, ...JSON.parse(row.data) }]));
  for (const acknowledged of writers) {
    for (const { user, id, name, position } of acknowledged)
      expect(kept.get(`plant-${user}/${id}`)).toMatchObject({ name, position });
    const positions = acknowledged.map(({ position }) => position);
    expect(positions).toEqual(positions.toSorted((a, b) => a - b));
  }
  for (const [i, user] of USERS.entries()) {
    const ofUser = [...kept.values()].filter((plant) => plant.user === user);
    expect(lists[i]).toEqual(ofUser.map(({ name }) => ({ name })));
  }
});

/** The locks that Linux knows, each with the inode of its file. */
const LOCKS = '/proc/locks';

// Closing one more descriptor of the file would end SQLite's lock on it. Another program that opens and closes
// the log would then move its write-ahead log into it, under the server.
test.runIf(existsSync(LOCKS))('after a crash, too, the server has locked its log', async () => {
  const DATA_DIR = tempDir();
  const killed = await startServer({ env: { DATA_DIR } });
  await client(killed.url, DATA_DIR)('alice').create(1, { name: 'Fern' });
  await killed.kill();

  const { url } = await startServer({ env: { DATA_DIR, MERKLE_TREE: 'on' } });
  await client(url, DATA_DIR)('alice').create(2, { name: 'Fern' });
  await treeSaved(DATA_DIR, 2); // its thread has opened the log, too
  const { ino } = statSync(join(DATA_DIR, 'log.db'));
  expect(readFileSync(LOCKS, 'utf8')).toMatch(new RegExp(`POSIX .*:${ino} `));
});
