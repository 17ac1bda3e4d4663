import { createPublicKey, type KeyObject, sign } from 'node:crypto';
import type { TreeHead } from '../merkle/treeHead.ts';
import { encodeHash } from '../notes/encoding.ts';
import {
  formatSignature,
  isKeyName,
  isNoteText,
  type VerifierKey,
  verifierKey,
} from '../notes/signedNote.ts';

// What only the holder of the private key can do; all else of notes and checkpoints also runs in a browser.

/** The verifier key of an Ed25519 key: of a log, or of a witness. */
export function verifierKeyOf(
  name: string,
  key: KeyObject,
  type: 'ed25519' | 'cosignature' = 'ed25519',
): VerifierKey {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  const { x } = publicKey.export({ format: 'jwk' });
  return verifierKey(name, Buffer.from(x as string, 'base64url'), type);
}

/** Signs a text, which ends with a line feed. Always the same note: Ed25519 is deterministic. */
export function signNote(text: string, { name, key }: { name: string; key: KeyObject }): string {
  if (!isNoteText(text) || !isKeyName(name)) throw new TypeError('the text or the key name is malformed');
  return `${text}\n${formatSignature(verifierKeyOf(name, key), sign(null, Buffer.from(text), key))}`;
}

/** The checkpoint of a log, signed with its key under the name of its origin. */
export function signCheckpoint(
  { size, root }: TreeHead,
  { origin, key }: { origin: string; key: KeyObject },
): string {
  return signNote(`${origin}\n${size}\n${encodeHash(root)}\n`, { name: origin, key });
}
