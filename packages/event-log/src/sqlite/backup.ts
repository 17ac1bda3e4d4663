import { DatabaseSync } from 'node:sqlite';
import { fsyncPath } from '../disk/fsyncPath.ts';
import { openReadOnly } from '../disk/sqlite.ts';
import { isThreadOf, serve, Thread, threadData } from '../threads/thread.ts';
import { unlessAborted } from '../time/sleep.ts';
import { findings } from './file.ts';

// Copying a database blocks its thread, so it runs on a thread of its own: this file is both sides.

type Copy = { from: string; to: string; isChecked: boolean };

/**
 * Copies a database to a new file while a server may be writing it: a consistent snapshot, synced, and checked by SQLite
 * unless the caller reads it. Uses VACUUM INTO, since node:sqlite's `backup` restarts with each commit of the server.
 * @throws Error; the file is then incomplete
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
  source.prepare('VACUUM INTO ?').run(to);
  if (isChecked) {
    using target = new DatabaseSync(to, { readOnly: true });
    const [damage] = findings(target, 'integrity_check', 1);
    if (damage !== undefined) throw new Error(`the copy is damaged: ${damage}`);
  }
  fsyncPath(to);
}

if (isThreadOf(import.meta.url)) serve(undefined, copy(threadData()));
