import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DataDirInUse, lockDataDir } from './dataDir.ts';

/** The directories of `verify`, and of backups in progress, have SQLite files only. */
const DRAFT = /^verify-\w{6}$|\.[\da-f-]{36}\.partial$/;
const SQLITE_FILE = /\.db(-\w+)?$/;

/** Marks the directory of a draft as in use, while this process runs. @throws Error */
export const lockDraft = (dir: string): Disposable => lockDataDir(dir);

/**
 * Removes the drafts that ended processes have left in a data directory; false if others are in use, or belong to another
 * account. @throws Error
 */
export function removeDrafts(dataDir: string): boolean {
  let isClean = true;
  for (const entry of readdirSync(dataDir, { withFileTypes: true })) {
    if (!entry.isDirectory() || !DRAFT.test(entry.name)) continue;
    const path = join(dataDir, entry.name);
    try {
      if (!readdirSync(path).every((name) => SQLITE_FILE.test(name))) continue;
      if (isInUse(path)) isClean = false;
      else rmSync(path, { recursive: true, force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
      isClean = false;
    }
  }
  return isClean;
}

function isInUse(dir: string): boolean {
  try {
    lockDataDir(dir)[Symbol.dispose]();
    return false;
  } catch (error) {
    if (error instanceof DataDirInUse) return true;
    throw error;
  }
}
