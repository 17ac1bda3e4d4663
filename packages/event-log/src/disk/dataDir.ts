import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fsyncPath } from './fsyncPath.ts';
import { assertWritable, hasSqliteCode, SQLITE } from './sqlite.ts';

export const logFile = (dataDir: string): string => join(dataDir, 'log.db');

/** Creates the data directory durably, accessible to its owner only, if it does not exist. */
export function createDataDir(dir: string): void {
  makeDir(resolve(dir), 0o700);
}

/** Node's recursive mkdir never returns where the system refuses it with ENOENT, as in /proc, and does not sync. */
function makeDir(dir: string, mode = 0o777): void {
  const parent = dirname(dir);
  if (!existsSync(parent)) makeDir(parent);
  try {
    mkdirSync(dir, { mode });
  } catch (error) {
    if (!statSync(dir, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
  syncEntry(dir); // also if it exists: the process that created it may have ended before
}

/** Makes a directory itself survive a power cut, if the one above can be read. */
function syncEntry(dir: string): void {
  try {
    fsyncPath(dirname(dir));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
  }
}

/** The data directory belongs to another process. */
export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse';
}

/** Locks a data directory, by an open transaction, which ends with the process. @throws DataDirInUse, Error */
export function lockDataDir(dir: string): Disposable {
  const file = join(dir, 'lock.db');
  let lock: DatabaseSync | undefined;
  try {
    createDataDir(dir);
  } catch (error) {
    throw new Error(`cannot use the data directory ${dir}: ${(error as Error).message}`, { cause: error });
  }
  try {
    assertWritable(file);
    lock = new DatabaseSync(file, { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    if (hasSqliteCode(error, SQLITE.BUSY))
      throw new DataDirInUse(`the data directory ${dir} is in use by another server`, { cause: error });
    throw new Error(`cannot use the lock file ${file}: ${(error as Error).message}`, { cause: error });
  }
}
