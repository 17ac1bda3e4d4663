import { DatabaseSync } from 'node:sqlite';
import { fsyncPath } from '../disk/fsyncPath.ts';
import { openReadOnly } from '../disk/sqlite.ts';
import { isThreadOf, serve, Thread, threadData } from '../threads/thread.ts';
import { unlessAborted } from '../time/sleep.ts';
import { findings } from './file.ts';

// Copying a database blocks its thread, so it runs on a thread of its own: this file is both sides.

type Files = { from: string; to: string };

/**
 * Copies a database to a new file while a server may be writing it: a consistent snapshot, checked by SQLite and
 * synced. Uses VACUUM INTO, since node:sqlite's `backup` restarts with each commit of the server.
 * @throws Error; the file is then incomplete
 */
export async function copyDatabase(from: string, to: string, signal: AbortSignal): Promise<void> {
  const data: Files = { from, to };
  await unlessAborted(new Thread(new URL(import.meta.url), { data }).started, signal);
  signal.throwIfAborted();
}

function copy({ from, to }: Files): void {
  using source = openReadOnly(from);
  source.prepare('VACUUM INTO ?').run(to);
  using target = new DatabaseSync(to, { readOnly: true });
  const [damage] = findings(target, 'integrity_check', 1);
  if (damage !== undefined) throw new Error(`the copy is damaged: ${damage}`);
  fsyncPath(to);
}

if (isThreadOf(import.meta.url)) serve(undefined, copy(threadData()));
