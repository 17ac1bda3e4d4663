import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { killUnderLoad } from '../support/crash.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { startServer } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

test('a server killed twenty times under load keeps and lists every acknowledged plant once', () =>
  killUnderLoad(20));

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
