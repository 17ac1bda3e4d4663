import { join } from 'node:path';
import { canErase } from '@event-sourced/event-log';
import { openSqliteStore } from '@event-sourced/event-log/sqlite';
import { Follower } from '@event-sourced/event-log/views';
import { eraseStreams } from '@event-sourced/transparency-log/erasure';
import { MerkleTreeView } from '@event-sourced/transparency-log/view';
import { PLANT_STREAM_PREFIX, plantStreamsOf } from '../../src/plants/stream.ts';

/** Erases a user in the log of a data directory, which no service uses. */
export async function eraseUser(dir: string, user: string): Promise<void> {
  const store = await openSqliteStore({ file: join(dir, 'log.db') });
  const view = MerkleTreeView.open(':memory:');
  const tree = new Follower({ store: store.forHashing, view });
  try {
    if (!canErase(store)) throw new Error('the embedded log can erase');
    await eraseStreams(store, {
      streams: plantStreamsOf(user),
      prefix: PLANT_STREAM_PREFIX,
      tree,
      assertTreeExtends: async () => {},
      now: () => new Date(),
    });
  } finally {
    await tree.stop();
    view.close();
    await store.close();
  }
}
