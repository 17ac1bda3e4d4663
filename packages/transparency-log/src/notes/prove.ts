import { leafHash } from '../merkle/merkleTree.ts';
import { verifyInclusion } from '../merkle/proofs.ts';
import { consistencyProofFromTiles, inclusionProofFromTiles, type ReadTile } from '../merkle/tiles.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { formatConsistencyProof, formatInclusionProof } from './proof.ts';

/** The tree for a proof; `sign` returns a checkpoint with its head. */
type ProvenTree = { head: TreeHead; read: ReadTile; sign: (head: TreeHead) => Promise<string> };

export class NotInTree extends Error {
  override readonly name = 'NotInTree';
}

/** The text of an inclusion proof for the entry at an index of the tree, from 0. @throws NotInTree */
export async function proveInclusion(
  entry: Buffer,
  index: number,
  { head, read, sign }: ProvenTree,
): Promise<string> {
  const path = await inclusionProofFromTiles(index, head.size, read);
  if (!verifyInclusion(leafHash(entry), { index, path, ...head })) throw new NotInTree();
  return formatInclusionProof({ extra: entry, index, path, checkpoint: await sign(head) });
}

/** The text of a consistency proof from the first `from` entries, at least one, to the tree. */
export async function proveConsistency(from: number, { head, read, sign }: ProvenTree): Promise<string> {
  const path = await consistencyProofFromTiles(from, head.size, read);
  return formatConsistencyProof({ from, path, checkpoint: await sign(head) });
}
