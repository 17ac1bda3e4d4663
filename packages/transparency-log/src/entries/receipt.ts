import type { Position, RecordedEvent } from '@event-sourced/event-log';
import { REACHED_TIMEOUT_MS } from '@event-sourced/event-log/views';
import { leafHash } from '../merkle/merkleTree.ts';
import { TILE_WIDTH, type Tile, tileHashes, tileWidth } from '../merkle/tiles.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { NotInTree, proveInclusion } from '../notes/prove.ts';
import { toEntry } from './leaf.ts';
import { checkTileStart, type TreeAndLog } from './readEntries.ts';

/** The log no longer has an event whose leaf is in its Merkle tree: the log or the tree's file was altered. */
export class LogContradictsTree extends Error {
  override readonly name = 'LogContradictsTree';
  constructor(position: Position) {
    super(`the log no longer has the event at position ${position} that is in its Merkle tree`);
  }
}

type Dependencies = TreeAndLog & {
  checkpoints: { headWith(index: number): TreeHead; sign(head: TreeHead): Promise<string> };
};

/**
 * Issues the text of a proof that the log has an event. Waits until the tree has the event.
 * @throws LogContradictsTree, ViewBehind, StoreUnavailable
 */
export async function issueReceipt(
  event: RecordedEvent,
  { tree, log, checkpoints }: Dependencies,
): Promise<string> {
  await tree.reached(event.position, await log.logId(), REACHED_TIMEOUT_MS);
  const entry = toEntry(event);
  const { ready } = tree;
  const tile = ready.tileIndex(event.position);
  const leaves = ready.readTile({ level: 0, index: tile, width: tileWidth(0, tile, ready.head.size) });
  // The leaf includes stream and revision, so no other event has the same leaf.
  const at = tileHashes(leaves).indexOf(leafHash(entry));
  if (at < 0) {
    for (const index of [tile, tile + 1])
      if (tree.ready.has({ level: 0, index, width: 1 })) await checkTileStart({ tree, log }, index);
    throw new LogContradictsTree(event.position);
  }
  const index = tile * TILE_WIDTH + at;
  const head = checkpoints.headWith(index);
  const read = (tile: Tile) => tree.ready.readTile(tile);
  try {
    return await proveInclusion(entry, index, { head, read, sign: () => checkpoints.sign(head) });
  } catch (error) {
    throw error instanceof NotInTree ? new LogContradictsTree(event.position) : error;
  }
}
