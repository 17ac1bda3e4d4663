import { MerkleTree } from '../merkle/merkleTree.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { decodeHash, decodeNumber } from './encoding.ts';
import { NotVerified } from './notVerified.ts';
import { openNote, splitNote, type VerifierKey } from './signedNote.ts';

// Checkpoints of a transparency log: https://c2sp.org/tlog-checkpoint

/** A note that states that the log named `origin` has had this tree head. */
export type Checkpoint = TreeHead & { origin: string; note: string };

export const EMPTY_TREE: TreeHead = { size: 0, root: new MerkleTree().root() };

export const keyOrigin = ({ name, origin = name }: VerifierKey): string => origin;

/** Verifies a checkpoint signed by this key; ignores lines after the root. @throws NotVerified */
export async function openCheckpoint(note: string, key: VerifierKey): Promise<Checkpoint> {
  const checkpoint = parseCheckpoint(note, await openNote(note, key));
  if (checkpoint.origin !== keyOrigin(key))
    throw new NotVerified(
      `the checkpoint belongs to the log ${checkpoint.origin}, not to ${keyOrigin(key)}`,
      'unsigned',
    );
  return checkpoint;
}

/** Parses a checkpoint without verifying its signatures. @throws NotVerified if it is malformed */
export function readUnverifiedCheckpoint(note: string): Checkpoint {
  return parseCheckpoint(note, splitNote(note).text);
}

function parseCheckpoint(note: string, text: string): Checkpoint {
  const [origin = '', size, root, ...extensions] = text.slice(0, -1).split('\n');
  if (origin === '' || size === undefined || root === undefined || extensions.includes(''))
    throw new NotVerified('the note is not a checkpoint');
  const checkpoint = { origin, size: decodeNumber(size, 'the size'), root: decodeHash(root), note };
  if (checkpoint.size === 0 && checkpoint.root !== EMPTY_TREE.root)
    throw new NotVerified('the checkpoint has size 0, but not the root of an empty log');
  return checkpoint;
}
