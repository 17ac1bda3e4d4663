import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { Load } from '../support/load.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { startServer } from '../support/server.ts';
import { startService } from '../support/service.ts';

/** Kills the service under load once per lifetime, each a number of acknowledged plants; then it has all of them. */
async function killUnderLoad(env: Record<string, string>, lifetimes: readonly number[]): Promise<Load> {
  const load = new Load();
  for (const lifetime of lifetimes) {
    const server = await startServer({ env });
    load.start(server);
    await load.more(lifetime);
    await server.kill();
    await load.broken();
  }
  const service = await startService(env);
  await load.expectKept(service);
  await service.close();
  return load;
}

test('a server killed twenty times under load keeps and lists every acknowledged plant once', async () => {
  const env = { DATA_DIR: tempDir() };
  await killUnderLoad(
    env,
    fc.sample(fc.noBias(fc.integer({ min: 1, max: 300 })), { numRuns: 20, seed: 2026 }),
  );
  expect(await runCli(['verify'], { ...env, MERKLE_TREE: 'off' })).toMatchObject({ code: 0 });
});

test('over EventStoreDB, a killed server keeps and lists them, with or without its data directory', async () => {
  const { url: EVENTSTOREDB_URL } = await startFakeServer();
  const load = await killUnderLoad({ EVENTSTOREDB_URL, DATA_DIR: tempDir() }, [1, 200, 500]);
  await load.expectKept(await startService({ EVENTSTOREDB_URL }));
});

/** The locks that Linux knows, each with the inode of its file. */
const LOCKS = '/proc/locks';

// Closing a second descriptor of the file would release SQLite's lock on it. Another program that opens and closes
// the log would then move its write-ahead log into it, under the server.
test.runIf(existsSync(LOCKS))('after a crash, too, the server has locked its log', async () => {
  const killed = await startServer();
  await killed.as('alice').create(1, { name: 'Fern' });
  await killed.kill();

  const { dir: DATA_DIR } = killed;
  const { as } = await startServer({ env: { DATA_DIR, MERKLE_TREE: 'on' } });
  await as('alice').create(2, { name: 'Fern' });
  await treeSaved(DATA_DIR, 2); // its thread has opened the log, too
  const { ino } = statSync(join(DATA_DIR, 'log.db'));
  expect(readFileSync(LOCKS, 'utf8')).toMatch(new RegExp(`POSIX .*:${ino} `));
});
