import { decodeHash, encodeHash } from './encoding.ts';
import { NotVerified } from './notVerified.ts';

// A proof's lines, a blank line, and a checkpoint: what https://c2sp.org/tlog-proof and tlog-witness share.

/** No tree of fewer than 2^63 leaves needs more. */
const MAX_PATH_LENGTH = 63;

/** The lines of a proof before its path, its path, and its checkpoint. */
type Parts = { header: readonly string[]; path: readonly string[]; checkpoint: string };

export function formatProof({ header, path, checkpoint }: Parts): string {
  return [...header, ...path.map(encodeHash), '', checkpoint].join('\n');
}

/** Splits a proof whose path follows the line that begins with `last`. @throws NotVerified */
export function parseProof(text: string, last: string): Parts {
  const end = text.indexOf('\n\n');
  const lines = text.slice(0, Math.max(end, 0)).split('\n');
  const headerLength = lines.findIndex((line) => line.startsWith(last)) + 1;
  if (headerLength === 0) throw new NotVerified('the text is not a proof');
  const path = lines.slice(headerLength);
  if (path.length > MAX_PATH_LENGTH) throw new NotVerified('the proof has too many hashes');
  return {
    header: lines.slice(0, headerLength),
    path: path.map(decodeHash),
    checkpoint: text.slice(end + 2),
  };
}
