import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { hasSqliteCode, SQLITE } from '@event-sourced/node/files';
import { databaseFile } from './dataDir.ts';

// Commands write files in directories of drafts, which belong to them alone. A process that is killed leaves its files there.

/** The file by which a directory of drafts is recognised, and which its users lock: nothing else is ever removed. */
const LOCK = 'drafts.lock';
const LOCK_TIMEOUT_MS = 5_000;

/** A directory for the files of this process, which is removed at the end. */
export type Draft = Disposable & { readonly dir: string };

const draftsOf = (dataDir: string): string => join(dataDir, 'drafts');

/** Creates a directory in the drafts of a data directory. @throws Error */
export function makeDraft(dataDir: string): Draft {
  const drafts = draftsOf(dataDir);
  const lock = openDrafts(drafts, 'BEGIN; SELECT 1 FROM sqlite_schema', LOCK_TIMEOUT_MS);
  if (!lock) throw new Error(`another process has locked ${drafts}`);
  using making = new DisposableStack();
  making.use(lock);
  const dir = mkdtempSync(join(drafts, 'draft-'));
  making.defer(() => removeDir(dir));
  const made = making.move();
  return { dir, [Symbol.dispose]: () => made.dispose() };
}

/**
 * Takes a directory for this process alone: creates it, or empties the one that a killed process has left there.
 * @throws Error, also if another process has it
 */
export function takeDraft(dir: string): Draft {
  const lock = openDrafts(dir, 'BEGIN EXCLUSIVE', 0);
  // Its last owner may have removed it in between.
  if (!lock || !existsSync(join(dir, LOCK))) {
    lock?.close();
    throw new Error(`another process uses ${dir}`);
  }
  using taking = new DisposableStack();
  taking.use(lock);
  empty(dir);
  const taken = taking.move();
  taken.defer(() => {
    empty(dir); // the lock last
    removeDir(dir);
  });
  return { dir, [Symbol.dispose]: () => taken.dispose() };
}

/**
 * Removes the drafts that killed processes have left in a data directory; false if a process uses a draft: no draft exists
 * without the lock of its process. @throws Error
 */
export async function removeDrafts(dataDir: string): Promise<boolean> {
  const drafts = draftsOf(dataDir);
  if (!areDrafts(drafts)) return true;
  using lock = openDrafts(drafts, 'BEGIN EXCLUSIVE', 0);
  if (!lock) return false;
  for (const path of contentsOf(drafts)) await rm(path, { recursive: true, force: true });
  return true;
}

/** Whether a path is a directory of drafts; a link or a directory of others is not. */
function areDrafts(dir: string): boolean {
  if (!lstatSync(dir, { throwIfNoEntry: false })?.isDirectory()) return false;
  const names = readdirSync(dir);
  return names.length === 0 || names.includes(LOCK);
}

const contentsOf = (dir: string): string[] =>
  readdirSync(dir).flatMap((name) => (name.startsWith(LOCK) ? [] : [join(dir, name)]));

function empty(dir: string): void {
  for (const path of contentsOf(dir)) removeDir(path);
}

/** A thread may still create files when a signal ends its command. */
const removeDir = (dir: string): void => rmSync(dir, { recursive: true, force: true, maxRetries: 10 });

/** Creates a directory of drafts if there is nothing, and locks it; undefined if another process has locked it. */
function openDrafts(dir: string, begin: string, timeout: number): DatabaseSync | undefined {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  if (!areDrafts(dir)) throw new Error(`${dir} has no drafts of this program: move it away`);
  const lock = new DatabaseSync(databaseFile(dir, LOCK), { timeout });
  try {
    lock.exec(`PRAGMA journal_mode = MEMORY; ${begin}`); // a journal on disk needs space
    return lock;
  } catch (error) {
    lock.close();
    if (hasSqliteCode(error, SQLITE.BUSY)) return undefined;
    throw error;
  }
}
