import { type KeyObject, sign } from 'node:crypto';
import {
  formatSignature,
  formatVerifierKey,
  splitNote,
  type VerifierKey,
  verifierKey,
} from '../../src/notes/signedNote.ts';
import { toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { keyNamed } from '../notes/keys.ts';

type Witness = { name: string; key: KeyObject };

/** The verifier key of a witness's Ed25519 key. */
export const cosignatureKey = ({ name, key }: Witness): VerifierKey =>
  verifierKey(name, toVerifierKey(name, key).publicKey, 'cosignature');

/** The verifier key of a witness as text, the same for the same name. */
export const witnessKey = (name: string): string =>
  formatVerifierKey(cosignatureKey({ name, key: keyNamed(name) }));

/** The line of a witness's cosignature (https://c2sp.org/tlog-cosignature). `time` is in seconds since 1970. */
export function cosign(note: string, witness: Witness, time: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(time));
  const message = `cosignature/v1\ntime ${time}\n${splitNote(note).text}`;
  const signature = sign(null, Buffer.from(message), witness.key);
  return formatSignature(cosignatureKey(witness), Buffer.concat([bytes, signature]));
}
