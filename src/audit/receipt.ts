import { ViewBehind } from '../../projections/waiting.ts';
import type { Position } from '../eventStore/eventStore.ts';
import { leafHash } from '../merkle/merkleTree.ts';
import { verifyInclusion } from '../merkle/proofs.ts';
import { hashesOfTile, inclusionProofFromTiles, TILE_WIDTH, type Tile, tileWidth } from '../merkle/tiles.ts';
import { plantStream } from '../plants/stream.ts';
import { entryOf, type TreeAndLog } from './readEntries.ts';

/** The user has no plant with this ID. */
export class UnknownPlant extends Error {
  override readonly name = 'UnknownPlant';
}

/** The log no longer has an event whose leaf is in its Merkle tree: it, or the tree's file, was altered. */
export class LogContradictsTree extends Error {
  override readonly name = 'LogContradictsTree';
  constructor(position: Position) {
    super(`the log no longer has the event at position ${position} that is in its Merkle tree`);
  }
}

/** The entry of a plant, and its inclusion proof in the tree of this size and root. */
export type Receipt = { entry: Buffer; index: number; path: string[]; head: TreeAndLog['tree']['current'] };

/**
 * Proves that the log has a user's plant. Waits until the tree has it.
 * @throws UnknownPlant, StreamDeleted, LogContradictsTree, ViewBehind, StoreUnavailable
 */
export async function receiptOf(
  { user, id }: { user: string; id: string },
  { tree, log }: TreeAndLog,
): Promise<Receipt> {
  const [event] = await log.readStream(plantStream(user, id), 1);
  if (event?.revision !== 0n) throw new UnknownPlant(`${JSON.stringify(user)} has no plant ${id}`);
  await tree.reached(event.position, await log.logId());
  const head = tree.current;
  const entry = entryOf(event);
  const leaf = leafHash(entry);
  const readTile = (tile: Tile): Buffer => {
    const hashes = tree.readTile(tile);
    if (!hashes) throw new ViewBehind('The Merkle tree has been rebuilt meanwhile; retry.');
    return hashes;
  };
  // The leaf names its stream and revision, so no other event has the same one.
  const tile = tree.tileOf(event.position)?.index ?? 0;
  const leaves = readTile({ level: 0, index: tile, width: tileWidth(0, tile, head.size) });
  const index = tile * TILE_WIDTH + hashesOfTile(leaves).indexOf(leaf);
  const path = await inclusionProofFromTiles(index, head.size, readTile);
  if (!verifyInclusion(leaf, { index, path, ...head })) throw new LogContradictsTree(event.position);
  return { entry, index, path, head };
}
