import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fileIdentity } from '../../disk/fileIdentity.ts';
import { serve, threadData } from '../../threads/thread.ts';
import { endingReplies } from './endingReplies.ts';
import type { CheckpointOperations, OpenLog } from './walCheckpointer.ts';

// Moves the write-ahead log into the database beside the writer, on its own thread, so that no append waits.

/** In each round there is only what was written during the one before. */
const ROUNDS = 3;

/** Opens the writer's file: another one at its path would take over the write-ahead log, or remove it. */
function open({ file, identity }: OpenLog): DatabaseSync {
  if (fileIdentity(file) !== identity) throw new Error(`${file} was deleted or replaced`);
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw'); // https://sqlite.org/uri.html: it is not created
  const db = new DatabaseSync(url, { timeout: 5_000 });
  db.exec('PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0');
  return db;
}

const db = open(threadData());
serve<CheckpointOperations>(
  {
    checkpoint() {
      try {
        for (let i = 0; i < ROUNDS; i++) db.exec('PRAGMA wal_checkpoint(PASSIVE)');
        return [];
      } catch (error) {
        return endingReplies(error);
      }
    },
    close: () => db.close(),
  },
  undefined,
);
