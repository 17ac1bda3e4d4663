import { entryLeafHash } from '../merkle/merkleTree.ts';
import { verifyInclusion } from '../merkle/proofs.ts';
import { consistencyProofFromTiles, inclusionProofFromTiles, type ReadTile } from '../merkle/tiles.ts';
import type { Checkpoint } from './checkpoint.ts';
import { formatConsistencyProof, formatInclusionProof } from './proof.ts';

export class NotInTree extends Error {
  override readonly name = 'NotInTree';
}

/** The text of an inclusion proof for the entry at an index of the checkpoint's tree, from 0. @throws NotInTree */
export async function proveInclusion(
  { entry, extra, index }: { entry: string; extra: Uint8Array; index: number },
  { note, size, root }: Checkpoint,
  read: ReadTile,
): Promise<string> {
  const path = await inclusionProofFromTiles(index, size, read);
  if (!verifyInclusion(entryLeafHash(entry), { index, path, size, root })) throw new NotInTree();
  return formatInclusionProof({ extra, index, path, checkpoint: note });
}

/** The text of a consistency proof from the first `from` entries, at least one, to the checkpoint's tree. */
export async function proveConsistency(
  from: number,
  { note, size }: Checkpoint,
  read: ReadTile,
): Promise<string> {
  const path = await consistencyProofFromTiles(from, size, read);
  return formatConsistencyProof({ from, path, checkpoint: note });
}
