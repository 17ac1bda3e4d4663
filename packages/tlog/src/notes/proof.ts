import { toBase64 } from '../bytes.ts';
import { entryLeafHash } from '../merkle/merkleTree.ts';
import { verifyConsistency, verifyInclusion } from '../merkle/proofs.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { type Checkpoint, openCheckpoint } from './checkpoint.ts';
import { decodeBase64, decodeHash, decodeNumber, encodeHash } from './encoding.ts';
import { NotVerified } from './notVerified.ts';
import type { VerifierKey } from './signedNote.ts';

// Inclusion proofs of https://c2sp.org/tlog-proof, and consistency proofs in the format of requests to witnesses,
// https://c2sp.org/tlog-witness. A proof has header lines, a path, a blank line, and a checkpoint.

/** `index`: from 0. `path`: as in RFC 9162, in hexadecimal. `extra`: what the entry follows from. */
type InclusionProof = {
  index: number;
  path: readonly string[];
  checkpoint: string;
  extra?: Uint8Array | undefined;
};

/** A proof that an earlier log of `from` entries is the beginning of the log of the checkpoint. */
type ConsistencyProof = { from: number; path: readonly string[]; checkpoint: string };

const FIRST_LINE = 'c2sp.org/tlog-proof@v1';
const EXTRA = 'extra ';
const INDEX = 'index ';
const OLD = 'old ';
/** The largest proof has the text of an event in Base64; another program may have written an event of 15 MiB. */
export const MAX_PROOF_BYTES = 64 * 1024 * 1024;
/** Enough for every tree of fewer than 2^63 leaves. */
const MAX_PATH_LENGTH = 63;

/** Whether a text has the first line of an inclusion proof. */
export const isInclusionProof = (text: string): boolean => text.startsWith(FIRST_LINE);

/** The signed checkpoint at the end of a proof of either kind. */
export const proofCheckpoint = (proof: string): string => proof.slice(proof.indexOf('\n\n') + 2);

/** The text of an inclusion proof, a `.tlog-proof` file. */
export function formatInclusionProof({ index, path, checkpoint, extra }: InclusionProof): string {
  const lines = [FIRST_LINE, ...(extra ? [EXTRA + toBase64(extra)] : []), `${INDEX}${index}`];
  return [...lines, ...path.map(encodeHash), '', checkpoint].join('\n');
}

export function formatConsistencyProof({ from, path, checkpoint }: ConsistencyProof): string {
  return [`${OLD}${from}`, ...path.map(encodeHash), '', checkpoint].join('\n');
}

function parseInclusionProof(text: string): InclusionProof {
  const { before, last, ...proof } = parseProof(text, INDEX);
  const [first, extra, unknown] = before;
  if (first !== FIRST_LINE || unknown !== undefined || (extra !== undefined && !extra.startsWith(EXTRA)))
    throw new NotVerified('the text is not an inclusion proof');
  return {
    index: decodeNumber(last, 'the index'),
    ...proof,
    ...(extra !== undefined && { extra: decodeBase64(extra.slice(EXTRA.length), 'the extra data') }),
  };
}

/** Parses the text of a consistency proof without verifying it. @throws NotVerified if it is malformed */
export function parseConsistencyProof(text: string): ConsistencyProof {
  const { before, last, ...proof } = parseProof(text, OLD);
  if (before.length > 0) throw new NotVerified('the text is not a consistency proof');
  return { from: decodeNumber(last, 'the old size'), ...proof };
}

/** Splits a proof. Its path follows a line that starts with `prefix`; `last` is the rest of that line. */
function parseProof(text: string, prefix: string) {
  const end = text.indexOf('\n\n');
  const lines = text.slice(0, Math.max(end, 0)).split('\n');
  const at = lines.findIndex((line) => line.startsWith(prefix));
  if (at === -1) throw new NotVerified('the text is not a proof');
  const path = lines.slice(at + 1);
  if (path.length > MAX_PATH_LENGTH) throw new NotVerified('the proof has too many hashes');
  const last = (lines[at] as string).slice(prefix.length);
  return {
    before: lines.slice(0, at),
    last,
    path: path.map(decodeHash),
    checkpoint: proofCheckpoint(text),
  };
}

/**
 * Verifies an inclusion proof and its signature. `toEntry` returns the entry, in hexadecimal, that follows from the extra
 * data. @throws NotVerified; errors of `toEntry`
 */
export async function openInclusionProof(
  text: string,
  key: VerifierKey,
  toEntry: (extra: Uint8Array) => string,
): Promise<{ index: number; extra: Uint8Array; checkpoint: Checkpoint }> {
  const { index, path, checkpoint: note, extra } = parseInclusionProof(text);
  if (extra === undefined) throw new NotVerified('the proof has no extra data');
  const checkpoint = await openCheckpoint(note, key);
  if (!verifyInclusion(entryLeafHash(toEntry(extra)), { ...checkpoint, index, path }))
    throw new NotVerified('the proof is invalid: its entry is not in the log of its checkpoint');
  return { index, extra, checkpoint };
}

/** Verifies a consistency proof from an earlier tree head, and its signature. @throws NotVerified */
export async function openConsistencyProof(
  text: string,
  earlier: TreeHead,
  key: VerifierKey,
): Promise<Checkpoint> {
  const { from, path, checkpoint: note } = parseConsistencyProof(text);
  const checkpoint = await openCheckpoint(note, key);
  if (from !== earlier.size)
    throw new NotVerified(
      `the proof starts from ${from} events, but the earlier checkpoint has ${earlier.size}`,
    );
  if (!verifyConsistency(earlier, checkpoint, path))
    throw new NotVerified('the proof is invalid: the earlier log is not the beginning of the later one');
  return checkpoint;
}
