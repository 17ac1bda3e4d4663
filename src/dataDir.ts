import { mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { failedWith, SQLITE } from './sqliteDatabase.ts';

/** Makes the data directory, for its owner only, where there is none. */
export function makeDataDir(dir: string): void {
  mkdirSync(dirname(resolve(dir)), { recursive: true });
  // Not recursive: Node never returns from making a directory that way where the system refuses it with ENOENT.
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Takes a data directory for one server: the lock is an open transaction, and dies with the process.
 * @throws Error with a message for an operator
 */
export function takeDataDir(dir: string): DatabaseSync {
  let lock: DatabaseSync | undefined;
  try {
    makeDataDir(dir);
    lock = new DatabaseSync(join(dir, 'lock.db'), { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    const reason = failedWith(error, SQLITE.BUSY) ? 'another server is using it' : (error as Error).message;
    throw new Error(`the data directory ${dir} cannot be used: ${reason}`);
  }
}
