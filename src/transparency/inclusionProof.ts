import { leafHash } from '../merkle/merkleTree.ts';
import { verifyInclusion } from '../merkle/proofs.ts';
import { openCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
import { decodeBase64, decodeNumber } from './encoding.ts';
import { NotVerified } from './notVerified.ts';
import { formatProof, parseProof } from './proofText.ts';
import type { VerifierKey } from './signedNote.ts';

// Inclusion proofs: https://c2sp.org/tlog-proof

/**
 * An entry is at `index`, from 0, of the log that the signed checkpoint states; `path` is that of RFC 9162 in
 * hexadecimal. `extra` is the entry itself in the proofs of this service.
 */
export type InclusionProof = {
  index: number;
  path: readonly string[];
  checkpoint: string;
  extra?: Buffer | undefined;
};

const FIRST_LINE = 'c2sp.org/tlog-proof@v1';

/** Whether a text is meant as an inclusion proof. */
export const isInclusionProof = (text: string): boolean => text.startsWith(FIRST_LINE);

/** The text of an inclusion proof, a `.tlog-proof` file. */
export function formatInclusionProof({ index, path, checkpoint, extra }: InclusionProof): string {
  const header = [FIRST_LINE, ...(extra ? [`extra ${extra.toString('base64')}`] : []), `index ${index}`];
  return formatProof({ header, path, checkpoint });
}

/** Parses the text of an inclusion proof, and verifies nothing. @throws NotVerified if it is malformed */
export function parseInclusionProof(text: string): InclusionProof {
  const { header, path, checkpoint } = parseProof(text, 'index ');
  const [first, ...more] = header;
  const index = more.pop() ?? '';
  const [extra, unknown] = more;
  if (first !== FIRST_LINE || unknown !== undefined || (extra !== undefined && !extra.startsWith('extra ')))
    throw new NotVerified('the text is not an inclusion proof');
  return {
    index: decodeNumber(index.slice('index '.length), 'the index'),
    path,
    checkpoint,
    ...(extra !== undefined && { extra: decodeBase64(extra.slice('extra '.length), 'the extra data') }),
  };
}

/**
 * Verifies an inclusion proof with its entry in `extra`, and the signature of its checkpoint by this key.
 * @throws NotVerified
 */
export async function openInclusionProof(
  text: string,
  key: VerifierKey,
): Promise<{ index: number; entry: Buffer; checkpoint: SignedCheckpoint }> {
  const { index, path, checkpoint: note, extra: entry } = parseInclusionProof(text);
  if (entry === undefined) throw new NotVerified('the proof does not have its entry as extra data');
  const checkpoint = await openCheckpoint(note, key);
  if (!verifyInclusion(leafHash(entry), { ...checkpoint, index, path }))
    throw new NotVerified('the proof is invalid: its entry is not in the log of its checkpoint');
  return { index, entry, checkpoint };
}
