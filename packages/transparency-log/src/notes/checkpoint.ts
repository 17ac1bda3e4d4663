import { MerkleTree } from '../merkle/merkleTree.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { decodeHash, decodeNumber } from './encoding.ts';
import { NotVerified } from './notVerified.ts';
import { openNote, splitNote, type VerifierKey } from './signedNote.ts';

// Checkpoints of a transparency log: https://c2sp.org/tlog-checkpoint

/** What a note states: the log named `origin` has had this tree head. */
export type Checkpoint = TreeHead & { origin: string; note: string };

export const EMPTY_TREE: TreeHead = { size: 0, root: new MerkleTree().root() };

export const originOf = ({ name, origin = name }: VerifierKey): string => origin;

/** A checkpoint that this key has signed; lines after the root are ignored. @throws NotVerified */
export async function openCheckpoint(note: string, key: VerifierKey): Promise<Checkpoint> {
  const checkpoint = parseCheckpoint(note, await openNote(note, key));
  if (checkpoint.origin !== originOf(key))
    throw new NotVerified(`the checkpoint is of the log ${checkpoint.origin}, not of ${originOf(key)}`);
  return checkpoint;
}

/** A checkpoint whose signatures are not verified. @throws NotVerified if it is malformed */
export function readUnverifiedCheckpoint(note: string): Checkpoint {
  return parseCheckpoint(note, splitNote(note).text);
}

function parseCheckpoint(note: string, text: string): Checkpoint {
  const checkpoint = { ...parseCheckpointText(text), note };
  if (checkpoint.size === 0 && checkpoint.root !== EMPTY_TREE.root)
    throw new NotVerified('the checkpoint has size 0, and not the root of an empty log');
  return checkpoint;
}

/** What the text of a checkpoint states, which may be a wrong root of an empty log. @throws NotVerified if it is malformed */
export function parseCheckpointText(text: string): Omit<Checkpoint, 'note'> {
  const [origin = '', size, root, ...extensions] = text.slice(0, -1).split('\n');
  if (origin === '' || size === undefined || root === undefined || extensions.includes(''))
    throw new NotVerified('the note is not a checkpoint');
  return { origin, size: decodeNumber(size, 'the size'), root: decodeHash(root) };
}
