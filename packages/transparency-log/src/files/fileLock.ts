import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { hasSqliteCode, SQLITE } from '@event-sourced/event-log/disk';

const LOCK_TIMEOUT_MS = 5_000;
const LOCK_POLL_MS = 10;

/** Another process has the lock. */
export class FileLocked extends Error {
  override readonly name = 'FileLocked';
}

/**
 * Waits for the lock of a file, which is created if it does not exist. The lock ends with the process.
 * @throws FileLocked after five seconds, Error
 */
export async function acquireFileLock(file: string): Promise<Disposable> {
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    const deadline = performance.now() + LOCK_TIMEOUT_MS;
    while (!tryToLock(lock)) {
      if (performance.now() > deadline) throw new FileLocked(`another process has locked ${file}`);
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
    lock.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if (hasSqliteCode(error, SQLITE.BUSY)) return false;
    throw error;
  }
}
