import {
  type EventLog,
  LogReplaced,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '@event-sourced/event-log';
import type { NextTurn } from '@event-sourced/event-log/time';
import type { Follower } from '@event-sourced/event-log/views';
import { TILE_WIDTH, tileHashes } from '../merkle/tiles.ts';
import { formatEntryBundle } from '../notes/entryBundle.ts';
import type { MerkleTreeView } from '../view/treeView.ts';
import { leafOf, toEntry } from './leaf.ts';

/** The tree, and the log for hashing that it follows. */
export type TreeAndLog = Readonly<{
  tree: Pick<Follower<MerkleTreeView>, 'ready' | 'reached'>;
  log: EventLog;
}>;

/** A page of the largest events has 4 MiB. Other requests run between pages. */
const PAGE_SIZE = 64;

/**
 * The position after which the entries of a tile are read. No hash covers it, so it is checked: its event is the last
 * entry of the previous tile, or the next event is the first entry of this tile. Otherwise the tree is rebuilt.
 * @throws ViewBehind, StoreUnavailable
 */
export async function checkTileStart({ tree, log }: TreeAndLog, index: number): Promise<Position> {
  const after = tree.ready.tileStart(index);
  const isLeaf = (event: RecordedEvent | undefined, tile: number, width: number): boolean =>
    event !== undefined &&
    tileHashes(tree.ready.readTile({ level: 0, index: tile, width })).at(-1) === leafOf(event);
  if (index === 0 && after === START) return after;
  if (index > 0 && isLeaf(await log.readEvent(after), index - 1, TILE_WIDTH)) return after;
  const page = await log.readAll({ after, limit: 1 }).catch((error) => {
    if (error instanceof LogReplaced) return undefined; // EventStoreDB has no event at this position
    throw error;
  });
  if (index > 0 && isLeaf(page?.events[0], index, 1)) return after;
  throw tree.ready.discard(`tile ${index} of level 0 has a wrong position`);
}

/**
 * The first `width` entries of a tile of level 0 of the tree, each after its length in two bytes
 * (https://c2sp.org/tlog-tiles). Reads the log page by page, each page after `nextTurn`: hashing the entries compares the
 * log with the tree. @throws StoreUnavailable, ViewBehind
 */
export async function* readEntries(
  { tree, log }: TreeAndLog,
  { index, width, nextTurn }: { index: number; width: number; nextTurn: NextTurn },
): AsyncGenerator<Buffer> {
  let after = await checkTileStart({ tree, log }, index);
  for (let missing = width; missing > 0; ) {
    await nextTurn();
    const { events, position, isEnd } = await log.readAll({ after, limit: PAGE_SIZE });
    const wanted = events.slice(0, missing);
    if (wanted.length > 0) yield formatEntryBundle(wanted.map(toEntry));
    missing -= wanted.length;
    if (isEnd && missing > 0) throw new StoreUnavailable('the log has fewer events than its Merkle tree');
    after = position;
  }
}
