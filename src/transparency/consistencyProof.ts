import { verifyConsistency } from '../merkle/proofs.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { openCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
import { decodeNumber } from './encoding.ts';
import { NotVerified } from './notVerified.ts';
import { formatProof, parseProof } from './proofText.ts';
import type { VerifierKey } from './signedNote.ts';

// Consistency proofs, as a witness gets them: https://c2sp.org/tlog-witness

/**
 * The first `from` events of the log that the signed checkpoint states are all of the log when it had so many;
 * `path` is that of RFC 9162 in hexadecimal.
 */
export type ConsistencyProof = { from: number; path: readonly string[]; checkpoint: string };

/** The text of a consistency proof. */
export function formatConsistencyProof({ from, path, checkpoint }: ConsistencyProof): string {
  return formatProof({ header: [`old ${from}`], path, checkpoint });
}

/** Parses the text of a consistency proof, and verifies nothing. @throws NotVerified if it is malformed */
export function parseConsistencyProof(text: string): ConsistencyProof {
  const { header, path, checkpoint } = parseProof(text, 'old ');
  const [old = '', ...unknown] = header;
  if (unknown.length > 0) throw new NotVerified('the text is not a consistency proof');
  return { from: decodeNumber(old.slice('old '.length), 'the old size'), path, checkpoint };
}

/**
 * Verifies a consistency proof from an earlier tree head, and the signature of its checkpoint by this key.
 * @throws NotVerified
 */
export async function openConsistencyProof(
  text: string,
  earlier: TreeHead,
  key: VerifierKey,
): Promise<SignedCheckpoint> {
  const { from, path, checkpoint: note } = parseConsistencyProof(text);
  const checkpoint = await openCheckpoint(note, key);
  if (from !== earlier.size)
    throw new NotVerified(`the proof is from ${from} events, and the earlier checkpoint has ${earlier.size}`);
  if (!isConsistent(earlier, checkpoint, path))
    throw new NotVerified('the proof is invalid: the earlier log is not the beginning of the later one');
  return checkpoint;
}

/** Whether a path proves that the earlier log is the beginning of the later one; the empty log always is. */
export function isConsistent(earlier: TreeHead, later: TreeHead, path: readonly string[]): boolean {
  return earlier.size === 0 ? path.length === 0 : verifyConsistency(earlier, later, path);
}
