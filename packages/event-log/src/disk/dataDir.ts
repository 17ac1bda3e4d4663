import { existsSync, lstatSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { assertWritable, fsyncPath, hasSqliteCode, SQLITE } from '@event-sourced/node/files';

/**
 * The path of a database in a data directory. @throws Error if the file is a symbolic link: SQLite keeps the write-ahead
 * log beside its target, and all checks look beside the link
 */
export function databaseFile(dataDir: string, name: string): string {
  const file = join(dataDir, name);
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink())
    throw new Error(`${file} is a symbolic link: move or link its whole directory instead`);
  return file;
}

export const logFile = (dataDir: string): string => databaseFile(dataDir, 'log.db');

/** Creates the data directory if it does not exist, durably, accessible to its owner only. */
export function createDataDir(dir: string): void {
  makeDir(resolve(dir), 0o700);
}

/** Node's recursive mkdir does not sync, and never returns if the system refuses with ENOENT, for example in /proc. */
function makeDir(dir: string, mode = 0o777): void {
  const parent = dirname(dir);
  if (!existsSync(parent)) makeDir(parent);
  try {
    mkdirSync(dir, { mode });
  } catch (error) {
    if (!statSync(dir, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
  syncEntry(dir); // even if it exists: the process that created it may have crashed before its fsync
}

/** Makes a directory itself survive a power cut, if its parent can be read. */
function syncEntry(dir: string): void {
  try {
    fsyncPath(dirname(dir));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
  }
}

/** Another process uses the data directory. */
export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse';
}

/** Locks a data directory with an open transaction, which ends with the process. @throws DataDirInUse, Error */
export function lockDataDir(dir: string): Disposable {
  let lock: DatabaseSync | undefined;
  try {
    createDataDir(dir);
  } catch (error) {
    throw new Error(`cannot use the data directory ${dir}: ${(error as Error).message}`, { cause: error });
  }
  const file = databaseFile(dir, 'lock.db');
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
