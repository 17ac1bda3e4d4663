import type { EventLog } from '@event-sourced/event-log';
import { assertReached } from '@event-sourced/event-log';
import { leafText } from '../entries/leaf.ts';
import { leafHash } from '../merkle/merkleTree.ts';
import { HASH_BYTES } from '../merkle/tiles.ts';
import type { TileWriter } from '../merkle/tileWriter.ts';

const PAGE_SIZE = 500;

/**
 * Compares the last tile of level 0 with the events of the log: why it is not theirs; undefined if it is.
 * @throws StoreUnavailable
 */
export async function lastTileMismatch(tree: TileWriter, log: EventLog): Promise<string | undefined> {
  const { position, lastTile } = tree;
  const leaves: string[] = [];
  for (let after = lastTile.startsAfter; after < position; ) {
    const page = await log.readAll({ after, limit: PAGE_SIZE });
    for (const event of page.events)
      if (event.position <= position) leaves.push(leafHash(leafText(event).text));
    after = page.position;
    if (page.isEnd) assertReached(position, after);
  }
  return leaves.join('') === lastTile.hashes.toString('hex')
    ? undefined
    : `its last ${lastTile.hashes.length / HASH_BYTES} leaves are not those of the log`;
}
