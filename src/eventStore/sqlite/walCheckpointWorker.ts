import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';
import { fileIdentity } from '../../disk/fileIdentity.ts';
import { endingReplies } from './endingReplies.ts';
import type { CommitReply } from './protocol.ts';
import type { OpenLog } from './walCheckpointer.ts';

// Moves the write-ahead log into the database beside the writer, on its own thread, so that no append waits.

/** So many rounds: in each there is only what was written during the one before. */
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

if (parentPort) {
  const port = parentPort;
  const db = open(workerData as OpenLog);
  const checkpoint = (): CommitReply[] => {
    try {
      for (let i = 0; i < ROUNDS; i++) db.exec('PRAGMA wal_checkpoint(PASSIVE)');
      return [];
    } catch (error) {
      return endingReplies(error);
    }
  };
  port.on('message', (message: 'checkpoint' | 'close') => {
    if (message === 'checkpoint') port.postMessage(checkpoint());
    else {
      db.close();
      port.close();
    }
  });
}
