import { createPublicKey, type KeyObject, sign } from 'node:crypto';
import { fromBase64, toUtf8 } from '../bytes.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { encodeHash } from '../notes/encoding.ts';
import {
  formatSignature,
  isKeyName,
  isNoteText,
  type VerifierKey,
  verifierKey,
} from '../notes/signedNote.ts';

// The functions that require a private key; the core only verifies signatures.

/** The verifier key of a log's Ed25519 key. */
export function toVerifierKey(name: string, key: KeyObject): VerifierKey {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  const { x } = publicKey.export({ format: 'jwk' });
  const base64 = (x as string).replaceAll('-', '+').replaceAll('_', '/');
  return verifierKey(name, fromBase64(base64));
}

/** Signs a text, which must end with a line feed. Ed25519 is deterministic, so the note is always the same. */
export function signNote(text: string, { name, key }: { name: string; key: KeyObject }): string {
  if (!isNoteText(text) || !isKeyName(name)) throw new TypeError('the text or the key name is malformed');
  return `${text}\n${formatSignature(toVerifierKey(name, key), sign(null, toUtf8(text), key))}`;
}

/** Signs a checkpoint with the key of a log, under the name of its origin. */
export function signCheckpoint(
  { size, root }: TreeHead,
  { origin, key }: { origin: string; key: KeyObject },
): string {
  return signNote(`${origin}\n${size}\n${encodeHash(root)}\n`, { name: origin, key });
}
