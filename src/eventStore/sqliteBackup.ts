import { once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { fsyncPath } from '../fsyncPath.ts';

// SQLite's own copying stops a thread for as long as it takes, so it has one of its own: this file is both sides of it.

type Files = { from: string; to: string };

/**
 * One state of a log, also while a server writes to it, as a file that is on the disk and passes SQLite's check.
 * VACUUM INTO, since node:sqlite's `backup` begins anew at each commit of the server.
 * @throws Error; what there is of the file then is worth nothing
 */
export async function copyLogFile(from: string, to: string, signal: AbortSignal): Promise<void> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { from, to } satisfies Files });
  await once(worker, 'exit', { signal });
}

function copy({ from, to }: Files): void {
  using source = new DatabaseSync(from, { readOnly: true, timeout: 5_000 });
  source.prepare('VACUUM INTO ?').run(to);
  using target = new DatabaseSync(to, { readOnly: true });
  const { integrity_check: verdict } = target.prepare('PRAGMA integrity_check(1)').get() as {
    integrity_check: string;
  };
  if (verdict !== 'ok') throw new Error(`the copy is damaged: ${verdict}`);
  fsyncPath(to);
}

if (!isMainThread && parentPort) copy(workerData as Files);
