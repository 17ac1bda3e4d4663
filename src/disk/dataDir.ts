import { mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fsyncPath } from './fsyncPath.ts';
import { hasSqliteCode, SQLITE } from './sqlite.ts';

export const logFile = (dataDir: string): string => join(dataDir, 'log.db');
const lockFile = (dataDir: string): string => join(dataDir, 'lock.db');

/** Creates the data directory, accessible to its owner only, if it does not exist. */
export function createDataDir(dir: string): void {
  const path = resolve(dir);
  const firstCreated = mkdirSync(dirname(path), { recursive: true }) ?? path;
  // Not recursive: where the system refuses it with ENOENT, Node never returns from a recursive mkdir.
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return;
  }
  // What is in a directory survives a power cut only if the directory does.
  for (let created = path; created.length >= firstCreated.length; created = dirname(created))
    fsyncPath(dirname(created));
}

/** The data directory belongs to another process. */
export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse';
}

/**
 * Locks a data directory for one server. The lock is an open transaction, so it ends with the process.
 * @throws DataDirInUse, Error with a message for the operator
 */
export function lockDataDir(dir: string): Disposable {
  let lock: DatabaseSync | undefined;
  try {
    createDataDir(dir);
    lock = new DatabaseSync(lockFile(dir), { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    if (hasSqliteCode(error, SQLITE.BUSY))
      throw new DataDirInUse(`the data directory ${dir} is in use by another server`, { cause: error });
    throw new Error(`cannot use the data directory ${dir}: ${(error as Error).message}`, { cause: error });
  }
}
