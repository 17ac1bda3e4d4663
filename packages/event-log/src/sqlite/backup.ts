import { existsSync, lstatSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { fileIdentity, fsyncPath, openReadOnly } from '@event-sourced/node/files';
import { finish, isThreadFor, Thread, threadData } from '@event-sourced/node/threads';
import { unlessAborted } from '@event-sourced/node/time';
import { readHeader } from '../disk/header.ts';
import { isStub } from '../erasure/erasure.ts';
import type { EventLog } from '../eventStore.ts';
import { assertIsLog, causeOf, isInWalMode } from './file.ts';
import { setScrubbed } from './overwrite.ts';
import { prepareReads } from './read.ts';

// Copying a database blocks its thread, so it runs on its own thread. This file has the code of both threads.

type Copy = { from: string; to: string };

/**
 * Copies the file of a log to a new file; a server may be writing to it. The copy is a consistent snapshot, synced, and
 * not checked. Uses VACUUM INTO: node:sqlite's `backup` restarts at each commit of the server.
 * @throws Error; then the file is incomplete
 */
export async function copyLogFile(from: string, to: string, signal: AbortSignal): Promise<void> {
  const data: Copy = { from, to };
  await unlessAborted(new Thread(new URL(import.meta.url), { data }).started, signal);
  signal.throwIfAborted();
}

function copy({ from, to }: Copy): void {
  try {
    using source = openReadOnly(from);
    source.exec('PRAGMA secure_delete = ON'); // the new file inherits it: moving a row leaves no copy
    source.prepare('VACUUM INTO ?').run(to);
    using target = new DatabaseSync(to);
    if (readHeader(target).isUnscrubbed) setScrubbed(target); // nothing was overwritten in this file
  } catch (error) {
    throw causeOf(error, from);
  }
  fsyncPath(to);
}

/** `source`: the file of the log; `log`: its events, or those of a new backup. */
type Backup = { source: string; log: Pick<EventLog, 'logId' | 'readEvent'> };

/** A backup replaces no file, or an earlier backup of the log whose last event the log has. @throws Error */
export async function assertReplaceable(file: string, { source, log }: Backup): Promise<void> {
  try {
    const stats = lstatSync(file, { throwIfNoEntry: false });
    if (stats && !stats.isFile()) throw new Error('it is not a regular file');
    if (stats && fileIdentity(file) === fileIdentity(source)) throw new Error('it is the log itself');
    if (stats && isInWalMode(file)) throw new Error('it is the log of a service, not a backup');
    const other = [`${file}-wal`, `${file}-journal`].find((path) => existsSync(path));
    if (other) throw new Error(`SQLite would apply ${other} to the backup; choose another name`);
    if (stats) await assertEarlier(file, log);
  } catch (error) {
    throw new Error(`cannot back up to ${file}: ${(error as Error).message}`, { cause: error });
  }
}

async function assertEarlier(file: string, log: Backup['log']): Promise<void> {
  using db = openReadOnly(file);
  assertIsLog(db);
  const earlier = prepareReads(db, {});
  if ((await earlier.logId()) !== (await log.logId())) throw new Error('it is a backup of another log');
  const last = await earlier.readEvent(await earlier.lastPosition());
  const counterpart = last && (await log.readEvent(last.position));
  const isInLog = counterpart && (counterpart.id === last.id || isStub(counterpart));
  if (last && !isInLog) throw new Error('a new backup would lack its last event');
}

if (isThreadFor(import.meta.url)) finish(copy(threadData()));
