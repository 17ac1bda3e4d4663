import { open } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { hasSqliteCode, SQLITE } from './sqliteCode.ts';

const LOCK_TIMEOUT_MS = 5_000;
const LOCK_POLL_MS = 10;

/**
 * Waits for the lock of a file, which is created if it does not exist. The lock ends with the process.
 * @throws Error, after five seconds if another process has the lock
 */
export async function acquireFileLock(file: string): Promise<Disposable> {
  await (await open(file, 'a', 0o600)).close(); // its error says why, unlike SQLite's
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    const deadline = performance.now() + LOCK_TIMEOUT_MS;
    while (!tryToLock(lock)) {
      if (performance.now() > deadline) throw new Error(`another process has locked ${file}`);
      await setTimeout(LOCK_POLL_MS);
    }
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

function tryToLock(lock: DatabaseSync): boolean {
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE'); // a journal on disk needs space
    return true;
  } catch (error) {
    if (hasSqliteCode(error, SQLITE.BUSY)) return false;
    throw error;
  }
}
