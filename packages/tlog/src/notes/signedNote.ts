import { sha256 } from '#crypto';
import { concat, fromHex, toBase64, toHex, toUtf8 } from '../bytes.ts';
import { decodeBase64 } from './encoding.ts';
import { NotVerified } from './notVerified.ts';

// Signed notes with Ed25519 signatures: https://c2sp.org/signed-note

/** The types of signatures, with the sizes of their public keys in bytes. */
const KEY_TYPES = {
  ed25519: { code: 0x01, length: 32 },
  cosignature: { code: 0x04, length: 32 },
  mlDsa44: { code: 0x06, length: 1_312 },
};
type KeyType = keyof typeof KEY_TYPES;

/**
 * A public key that verifies notes. `id`: eight hexadecimal digits. `origin`: the name of the log in its checkpoints,
 * if it is not the name of the key.
 */
export type VerifierKey = { name: string; type: KeyType; id: string; publicKey: Uint8Array; origin?: string };

/** A larger note is refused. */
export const MAX_NOTE_BYTES = 1_000_000;
const MAX_SIGNATURES = 100;
const KEY_ID_BYTES = 4;

/** The rule for a key name, for messages. */
export const KEY_NAME_RULE = 'without spaces, plus signs and control characters';

/** Whether a text can be the name of a key. */
export function isKeyName(text: string): boolean {
  return text !== '' && text.isWellFormed() && !/[\p{White_Space}\p{Cc}+]/u.test(text);
}

export function verifierKey(name: string, publicKey: Uint8Array, type: KeyType = 'ed25519'): VerifierKey {
  const hashed = concat([toUtf8(`${name}\n`), encodedKey(type, publicKey)]);
  return { name, type, id: sha256(hashed).slice(0, 2 * KEY_ID_BYTES), publicKey };
}

/** Formats a verifier key (vkey), such as example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k. */
export function formatVerifierKey({ name, type, id, publicKey }: VerifierKey): string {
  return `${name}+${id}+${toBase64(encodedKey(type, publicKey))}`;
}

/** Parses a verifier key of one of these types; ignores white space at its ends. @throws NotVerified */
export function parseVerifierKey(text: string, types: readonly KeyType[] = ['ed25519']): VerifierKey {
  const [, name = '', id, base64 = ''] = /^([^+]+)\+([\da-f]{8})\+(.+)$/su.exec(text.trim()) ?? [];
  if (!isKeyName(name)) throw new NotVerified('the key must be a verifier key: NAME+ID+KEY');
  const encoded = decodeBase64(base64, 'the verifier key');
  const type = types.find((one) => KEY_TYPES[one].code === encoded[0]);
  if (!type || encoded.length !== 1 + KEY_TYPES[type].length)
    throw new NotVerified(`the type of the verifier key is not ${types.join(' or ')}`);
  const key = verifierKey(name, encoded.subarray(1), type);
  if (key.id !== id) throw new NotVerified('the ID of the verifier key does not match its name and key');
  return key;
}

/** Parses the key of a log, with its origin if that is not the name of the key. @throws NotVerified */
export function parseLogKey({ key, origin }: { key: string; origin?: string }): VerifierKey {
  return { ...parseVerifierKey(key), ...(origin !== undefined && { origin }) };
}

function encodedKey(type: KeyType, publicKey: Uint8Array): Uint8Array {
  return concat([Uint8Array.of(KEY_TYPES[type].code), publicKey]);
}

/**
 * Verifies a note signed by this key, and returns its text. Ignores signatures of other keys; if the note has several
 * signatures of this key, each one must be valid. @throws NotVerified
 */
export async function openNote(note: string, key: VerifierKey): Promise<string> {
  const { text, signatures } = splitNote(note);
  const own = signaturesBy(signatures, key);
  if (own.length === 0) throw new NotVerified(`there is no signature of ${key.name}+${key.id}`, 'unsigned');
  for (const { signature } of own)
    if (!(await isSignature(signature, text, key)))
      throw new NotVerified(`the signature of ${key.name} is invalid`, 'contradiction');
  return text;
}

/** Uses WebCrypto, which also exists in browsers. */
async function isSignature(
  signature: Uint8Array,
  text: string,
  { publicKey }: VerifierKey,
): Promise<boolean> {
  const [raw, bytes] = [new Uint8Array(publicKey), new Uint8Array(signature)];
  const key = await crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify']);
  return crypto.subtle.verify('Ed25519', key, bytes, toUtf8(text));
}

type Signature = { name: string; id: string; signature: Uint8Array };

export const signaturesBy = (signatures: readonly Signature[], { name, id }: VerifierKey): Signature[] =>
  signatures.filter((one) => one.name === name && one.id === id);

/** Formats the line of a signature, which ends with a line feed. */
export const formatSignature = ({ name, id }: VerifierKey, signature: Uint8Array): string =>
  `— ${name} ${toBase64(concat([fromHex(id), signature]))}\n`;

/** The text and the unverified signatures of a note. @throws NotVerified if it is malformed */
export function splitNote(note: string): { text: string; signatures: Signature[] } {
  if (toUtf8(note).length > MAX_NOTE_BYTES) throw new NotVerified('the note is too large');
  const end = note.lastIndexOf('\n\n') + 1;
  const [text, rest] = [note.slice(0, end), note.slice(end + 1)];
  if (!isNoteText(text) || !rest.endsWith('\n')) throw new NotVerified('the text is not a signed note');
  const lines = rest.slice(0, -1).split('\n');
  if (lines.length > MAX_SIGNATURES) throw new NotVerified('the note has too many signatures');
  return { text, signatures: lines.map(parseSignature) };
}

function parseSignature(line: string): Signature {
  const [, name = '', base64 = ''] = /^— ([^ ]+) ([^ ]+)$/u.exec(line) ?? [];
  if (!isKeyName(name)) throw new NotVerified('a line of the note is not a signature');
  const bytes = decodeBase64(base64, 'a signature');
  if (bytes.length <= KEY_ID_BYTES) throw new NotVerified('a signature is too short');
  return { name, id: toHex(bytes.subarray(0, KEY_ID_BYTES)), signature: bytes.subarray(KEY_ID_BYTES) };
}

/** Whether a text can be the text of a note: it ends with a line feed, and has no other ASCII control characters. */
export function isNoteText(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: notes must not have these characters
  return text.endsWith('\n') && text.isWellFormed() && !/[\0-\x09\x0b-\x1f]/.test(text);
}
