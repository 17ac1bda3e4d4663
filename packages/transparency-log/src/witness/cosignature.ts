import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { type Checkpoint, readUnverifiedCheckpoint } from '../notes/checkpoint.ts';
import { NotVerified } from '../notes/notVerified.ts';
import {
  formatSignature,
  formatVerifierKey,
  signaturesOf,
  splitNote,
  type VerifierKey,
} from '../notes/signedNote.ts';
import { verifierKeyOf } from '../sign/signCheckpoint.ts';

// Cosignatures of checkpoints by witnesses: https://c2sp.org/tlog-cosignature

/** A valid signature of a witness; `time`: when it was made, in seconds since 1970. `line`: as it is in a note. */
export type Cosignature = { key: VerifierKey; time: number; line: string };

/** A checkpoint with the cosignatures of witnesses. `time`: when they were made, in seconds since 1970. */
export type CosignedCheckpoint = Checkpoint & { time: number };

const UINT64_BYTES = 8;

/**
 * The cosignatures of a checkpoint, the newest of each key. Signatures of other keys are ignored; those of a type that
 * this version of Node cannot verify, or without a time, do not count. @throws NotVerified if one is invalid
 */
export function cosignaturesOf(note: string, keys: readonly VerifierKey[]): Cosignature[] {
  const { text, signatures } = splitNote(note);
  const checkpoint = readUnverifiedCheckpoint(note);
  return keys.filter(canVerify).flatMap((key) => {
    const found = signaturesOf(signatures, key).map(({ signature }) => {
      const time = timeOf(signature, key);
      const message = messageOf(key, time, text, checkpoint);
      if (!verify(null, message, publicKeyOf(key), signature.subarray(UINT64_BYTES)))
        throw new NotVerified(`the cosignature of ${key.name} is invalid`);
      return { key, time, line: formatSignature(key, signature) };
    });
    const timed = found.filter(({ time }) => time > 0);
    return timed.toSorted((one, other) => other.time - one.time).slice(0, 1);
  });
}

/** The signature line of a witness for a checkpoint that it has verified. `time`: in seconds since 1970. */
export function cosign(note: string, { name, key }: { name: string; key: KeyObject }, time: number): string {
  const { text } = splitNote(note);
  const witness = verifierKeyOf(name, key, 'cosignature');
  const signature = sign(null, messageOf(witness, time, text, readUnverifiedCheckpoint(note)), key);
  return formatSignature(witness, Buffer.concat([uint64(time), signature]));
}

/** Whether this version of Node can verify signatures of a key: ML-DSA-44 needs Node 24.6. */
export function canVerify(key: VerifierKey): boolean {
  try {
    publicKeyOf(key);
    return true;
  } catch {
    if (key.type === 'mlDsa44') return false;
    throw new NotVerified(`the verifier key ${formatVerifierKey(key)} is not a public key`);
  }
}

/** 0 if a signature states no time, as one with ML-DSA-44 may. @throws NotVerified */
function timeOf(signature: Buffer, { type }: VerifierKey): number {
  const time = signature.length > UINT64_BYTES ? signature.readBigUInt64BE() : -1n;
  if (time < (type === 'mlDsa44' ? 0n : 1n) || time > Number.MAX_SAFE_INTEGER)
    throw new NotVerified('a cosignature has no valid time');
  return Number(time);
}

function publicKeyOf({ type, publicKey }: VerifierKey): KeyObject {
  const bytes = publicKey.toString('base64url');
  const mlDsa44 = { kty: 'AKP', alg: 'ML-DSA-44', pub: bytes };
  const key: { [member: string]: string } =
    type === 'mlDsa44' ? mlDsa44 : { kty: 'OKP', crv: 'Ed25519', x: bytes };
  return createPublicKey({ format: 'jwk', key });
}

function messageOf({ type, name }: VerifierKey, time: number, text: string, checkpoint: Checkpoint): Buffer {
  if (type !== 'mlDsa44') return Buffer.from(`cosignature/v1\ntime ${time}\n${text}`);
  const { origin, size, root } = checkpoint;
  return Buffer.concat([
    Buffer.from('subtree/v1\n\0'),
    withLength(name),
    uint64(time),
    withLength(origin),
    uint64(0),
    uint64(size),
    Buffer.from(root, 'hex'),
  ]);
}

/** The text after its length in one byte. @throws NotVerified */
function withLength(text: string): Buffer {
  const bytes = Buffer.from(text);
  if (bytes.length > 255) throw new NotVerified('a name is too long to be cosigned');
  return Buffer.concat([Buffer.of(bytes.length), bytes]);
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(UINT64_BYTES);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
