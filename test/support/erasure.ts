import { join } from 'node:path';
import { canErase, eraseStreams } from '@event-sourced/event-log';
import { openSqliteStore } from '@event-sourced/event-log/sqlite';
import { leafOf } from '@event-sourced/transparency-log/entries';
import { PLANT_STREAM_PREFIX, plantStreamsOf } from '../../src/plants/stream.ts';

/** Erases a user in the log of a data directory, which no service uses. */
export async function eraseUser(dir: string, user: string): Promise<void> {
  const store = await openSqliteStore({ file: join(dir, 'log.db') });
  try {
    if (!canErase(store)) throw new Error('the embedded log can erase');
    const streams = { prefix: PLANT_STREAM_PREFIX, streams: plantStreamsOf(user) };
    await eraseStreams(store, { ...streams, leafOf, now: () => new Date() });
  } finally {
    await store.close();
  }
}
