import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { concat, fromHex, toBase64, toUtf8 } from '../bytes.ts';
import { type Checkpoint, readUnverifiedCheckpoint } from '../notes/checkpoint.ts';
import { NotVerified } from '../notes/notVerified.ts';
import {
  formatSignature,
  formatVerifierKey,
  signaturesBy,
  splitNote,
  type VerifierKey,
} from '../notes/signedNote.ts';

// Cosignatures of checkpoints by witnesses: https://c2sp.org/tlog-cosignature

/** A valid cosignature. `time`: when it was created, in seconds since 1970. `line`: its line in a note. */
export type Cosignature = { key: VerifierKey; time: number; line: string };

/** A checkpoint with the cosignatures of witnesses. `time`: when these were created, in seconds since 1970. */
export type CosignedCheckpoint = Checkpoint & { time: number };

const UINT64_BYTES = 8;

/**
 * The verified cosignatures of a checkpoint, the newest of each key. Ignores signatures of other keys, signatures that
 * this version of Node cannot verify, and signatures without a time or, in seconds since 1970, after `latest`.
 * @throws NotVerified if one is invalid
 */
export function verifyCosignatures(
  note: string,
  keys: readonly VerifierKey[],
  latest = Number.POSITIVE_INFINITY,
): Cosignature[] {
  const { text, signatures } = splitNote(note);
  const checkpoint = readUnverifiedCheckpoint(note);
  return keys.filter(canVerify).flatMap((key) => {
    const found = signaturesBy(signatures, key).map(({ signature }) => {
      const time = signatureTime(signature, key);
      const message = signedMessage(key, time, text, checkpoint);
      if (!verify(null, message, toPublicKey(key), signature.subarray(UINT64_BYTES)))
        throw new NotVerified(`the cosignature of ${key.name} is invalid`);
      return { key, time, line: formatSignature(key, signature) };
    });
    const timed = found.filter(({ time }) => time > 0 && time <= latest);
    return timed.toSorted((one, other) => other.time - one.time).slice(0, 1);
  });
}

/** Whether this version of Node can verify signatures of a key: ML-DSA-44 requires Node 24.6. */
export function canVerify(key: VerifierKey): boolean {
  try {
    toPublicKey(key);
    return true;
  } catch {
    if (key.type === 'mlDsa44') return false;
    throw new NotVerified(`the verifier key ${formatVerifierKey(key)} is not a public key`);
  }
}

/** The time of a signature; 0 if it has none, which ML-DSA-44 allows. @throws NotVerified */
function signatureTime(signature: Uint8Array, { type }: VerifierKey): number {
  const time = signature.length > UINT64_BYTES ? viewOf(signature).getBigUint64(0) : -1n;
  if (time < (type === 'mlDsa44' ? 0n : 1n) || time > Number.MAX_SAFE_INTEGER)
    throw new NotVerified('a cosignature has no valid time');
  return Number(time);
}

function toPublicKey({ type, publicKey }: VerifierKey): KeyObject {
  const bytes = toBase64(publicKey).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  const mlDsa44 = { kty: 'AKP', alg: 'ML-DSA-44', pub: bytes };
  const key: { [member: string]: string } =
    type === 'mlDsa44' ? mlDsa44 : { kty: 'OKP', crv: 'Ed25519', x: bytes };
  return createPublicKey({ format: 'jwk', key });
}

function signedMessage(
  { type, name }: VerifierKey,
  time: number,
  text: string,
  checkpoint: Checkpoint,
): Uint8Array {
  if (type !== 'mlDsa44') return toUtf8(`cosignature/v1\ntime ${time}\n${text}`);
  const { origin, size, root } = checkpoint;
  return concat([
    toUtf8('subtree/v1\n\0'),
    withLength(name),
    uint64(time),
    withLength(origin),
    uint64(0),
    uint64(size),
    fromHex(root),
  ]);
}

/** A text preceded by its length in one byte. @throws NotVerified */
function withLength(text: string): Uint8Array {
  const bytes = toUtf8(text);
  if (bytes.length > 255) throw new NotVerified('a name is too long to be cosigned');
  return concat([Uint8Array.of(bytes.length), bytes]);
}

function uint64(value: number): Uint8Array {
  const bytes = new Uint8Array(UINT64_BYTES);
  viewOf(bytes).setBigUint64(0, BigInt(value));
  return bytes;
}

const viewOf = ({ buffer, byteOffset }: Uint8Array): DataView => new DataView(buffer, byteOffset);
