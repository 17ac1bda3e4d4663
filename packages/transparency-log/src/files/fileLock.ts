import type { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';

/** A result code of SQLite (https://sqlite.org/rescode.html): another connection has the lock. */
const SQLITE_BUSY = 5;
const LOCK_TIMEOUT_MS = 5_000;
const LOCK_POLL_MS = 10;

/** Another process has the lock. */
export class FileLocked extends Error {
  override readonly name = 'FileLocked';
}

/**
 * Locks a file, created if missing, once it is free. The lock ends with the process.
 * @throws FileLocked after five seconds, Error
 */
export async function acquireFileLock(file: string): Promise<Disposable> {
  const lock = new (loadSqlite().DatabaseSync)(file, { timeout: 0 });
  try {
    const deadline = performance.now() + LOCK_TIMEOUT_MS;
    while (!tryToLock(lock)) {
      if (performance.now() > deadline) throw new FileLocked(`another process has locked ${file}`);
      await setTimeout(LOCK_POLL_MS);
    }
    return { [Symbol.dispose]: () => lock.close() };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Node 22 warns that SQLite is experimental. */
function loadSqlite(): typeof import('node:sqlite') {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}

function tryToLock(lock: DatabaseSync): boolean {
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if ((Number((error as { errcode?: number }).errcode) & 0xff) === SQLITE_BUSY) return false;
    throw error;
  }
}
