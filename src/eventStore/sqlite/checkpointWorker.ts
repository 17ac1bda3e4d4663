import { parentPort, workerData } from 'node:worker_threads';
import { openLogFile } from './file.ts';
import { type CommitReply, endingReplies, READY } from './protocol.ts';

// Moves the write-ahead log into the database beside the writer, on its own thread, so that no append waits.

/** So many rounds: in each there is only what was written during the one before. */
const ROUNDS = 3;

if (parentPort) {
  const port = parentPort;
  const db = openLogFile(workerData as string);
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
  port.postMessage(READY);
}
