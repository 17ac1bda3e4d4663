import { ViewBehind } from '../../projections/waiting.ts';
import { leafHash } from '../merkle/merkleTree.ts';
import { verifyInclusion } from '../merkle/proofs.ts';
import { inclusionProofFromTiles, type Tile } from '../merkle/tiles.ts';
import { plantStream } from '../plants/stream.ts';
import { entryOf, indexOf, type TreeAndLog } from './entryBundle.ts';

/** The user has no plant with this ID. */
export class UnknownPlant extends Error {
  override readonly name = 'UnknownPlant';
}

/** The entry of a plant, and its inclusion proof in the tree of this size and root. */
export type Receipt = { entry: Buffer; index: number; path: string[]; head: TreeAndLog['tree']['current'] };

/**
 * Proves that the log has a user's plant. Waits until the tree has it.
 * @throws UnknownPlant, ViewBehind, StoreUnavailable
 */
export async function receiptOf(
  { user, id }: { user: string; id: string },
  { tree, log }: TreeAndLog,
): Promise<Receipt> {
  const [event] = await log.readStream(plantStream(user, id), 1);
  if (event?.revision !== 0n) throw new UnknownPlant(`${JSON.stringify(user)} has no plant ${id}`);
  await tree.reached(event.position, await log.logId());
  const head = tree.current;
  const index = await indexOf({ tree, log }, event.position);
  const path = await inclusionProofFromTiles(index, head.size, (tile: Tile) => {
    const hashes = tree.readTile(tile);
    if (!hashes) throw new ViewBehind('The Merkle tree has been rebuilt meanwhile; retry.');
    return hashes;
  });
  const entry = entryOf(event);
  if (!verifyInclusion(leafHash(entry), { index, path, ...head }))
    throw new Error(`the event at position ${event.position} is not the one in the Merkle tree`);
  return { entry, index, path, head };
}
