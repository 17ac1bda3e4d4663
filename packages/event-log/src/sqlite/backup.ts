import { DatabaseSync } from 'node:sqlite';
import { fsyncPath } from '../disk/fsyncPath.ts';
import { openReadOnly } from '../disk/sqlite.ts';
import { isThreadFor, serve, Thread, threadData } from '../threads/thread.ts';
import { unlessAborted } from '../time/sleep.ts';
import { findings } from './file.ts';

// Copying a database blocks its thread, so it runs on its own thread. This file has the code of both threads.

type Copy = { from: string; to: string; isChecked: boolean };

/**
 * Copies a database to a new file; a server may be writing to it. The copy is a consistent snapshot, synced, and
 * checked by SQLite unless the caller reads it anyway. Uses VACUUM INTO: node:sqlite's `backup` restarts at each commit
 * of the server. @throws Error; then the file is incomplete
 */
export async function copyDatabase(
  from: string,
  to: string,
  signal: AbortSignal,
  { isChecked = true } = {},
): Promise<void> {
  const data: Copy = { from, to, isChecked };
  await unlessAborted(new Thread(new URL(import.meta.url), { data }).started, signal);
  signal.throwIfAborted();
}

function copy({ from, to, isChecked }: Copy): void {
  using source = openReadOnly(from);
  source.exec('PRAGMA secure_delete = ON'); // the new file inherits it: moving a row leaves no copy
  source.prepare('VACUUM INTO ?').run(to);
  if (isChecked) {
    using target = new DatabaseSync(to, { readOnly: true });
    const [damage] = findings(target, 'integrity_check', 1);
    if (damage !== undefined) throw new Error(`the copy is damaged: ${damage}`);
  }
  fsyncPath(to);
}

if (isThreadFor(import.meta.url)) serve(undefined, copy(threadData()));
