import { MerkleTree } from '../merkle/merkleTree.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { decodeHash, decodeNumber } from './encoding.ts';
import { NotVerified } from './notVerified.ts';
import { openNote, splitNote, type VerifierKey } from './signedNote.ts';

// Checkpoints of a transparency log: https://c2sp.org/tlog-checkpoint

/** What a checkpoint states: the log named `origin` has had this size and root. */
export type SignedCheckpoint = TreeHead & { origin: string };

export const EMPTY_TREE: TreeHead = { size: 0, root: new MerkleTree().root() };

/** What a checkpoint by this key states; lines after the root are ignored. @throws NotVerified */
export async function openCheckpoint(note: string, key: VerifierKey): Promise<SignedCheckpoint> {
  const checkpoint = parseCheckpoint(await openNote(note, key));
  if (checkpoint.origin !== key.name)
    throw new NotVerified(`the checkpoint is of the log ${checkpoint.origin}, not of ${key.name}`);
  return checkpoint;
}

/** What a checkpoint states, without verifying its signatures. @throws NotVerified if it is malformed */
export function readUnverifiedCheckpoint(note: string): SignedCheckpoint {
  return parseCheckpoint(splitNote(note).text);
}

function parseCheckpoint(text: string): SignedCheckpoint {
  const checkpoint = parseCheckpointText(text);
  if (checkpoint.size === 0 && checkpoint.root !== EMPTY_TREE.root)
    throw new NotVerified('the checkpoint has size 0, and not the root of an empty log');
  return checkpoint;
}

/** What the text of a checkpoint states, which may be a wrong root of an empty log. @throws NotVerified if it is malformed */
export function parseCheckpointText(text: string): SignedCheckpoint {
  const [origin = '', size, root, ...extensions] = text.slice(0, -1).split('\n');
  if (origin === '' || size === undefined || root === undefined || extensions.includes(''))
    throw new NotVerified('the note is not a checkpoint');
  return { origin, size: decodeNumber(size, 'the size'), root: decodeHash(root) };
}
