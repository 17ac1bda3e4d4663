import { fromBase64, fromHex, toBase64, toHex } from '../bytes.ts';
import { HASH_BYTES } from '../merkle/tiles.ts';
import { NotVerified } from './notVerified.ts';

// The encodings that the formats of https://c2sp.org share. Each value has one encoding; others are refused.

/** Decodes text of a note or proof. @throws NotVerified if it is not UTF-8 */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new NotVerified('the text is not UTF-8');
  }
}

/**
 * Decodes a file, and reverts changes that mail or Windows may have made: notes and proofs have no carriage returns, do
 * not start with an empty line, and end with a line feed. @throws NotVerified
 */
export const decodeTextFile = (bytes: Uint8Array): string =>
  decodeUtf8(bytes)
    .replace(/^\ufeff/, '')
    .replaceAll('\r\n', '\n')
    .trim()
    .concat('\n');

/** Base64 of RFC 4648 section 4. @throws NotVerified that names `what` */
export function decodeBase64(text: string, what: string): Uint8Array {
  try {
    const bytes = fromBase64(text);
    if (toBase64(bytes) === text) return bytes;
  } catch {} // characters that Base64 does not have
  throw new NotVerified(`${what} is not Base64`);
}

/** Converts a hash from Base64 to lower-case hexadecimal, its form everywhere in the code. @throws NotVerified */
export function decodeHash(text: string): string {
  const bytes = decodeBase64(text, 'a hash');
  if (bytes.length !== HASH_BYTES)
    throw new NotVerified(`a hash has ${bytes.length} bytes, not ${HASH_BYTES}`);
  return toHex(bytes);
}

/** Converts a hash from hexadecimal to Base64. */
export function encodeHash(hash: string): string {
  return toBase64(fromHex(hash));
}

/** Parses a size or an index in decimal digits. @throws NotVerified that names `what` */
export function decodeNumber(text: string, what: string): number {
  if (!/^(0|[1-9]\d*)$/.test(text)) throw new NotVerified(`${what} is not a number`);
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new NotVerified(`${what} is too large`);
  return number;
}
