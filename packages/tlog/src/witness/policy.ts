import { toHex } from '../bytes.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { parseVerifierKey, type VerifierKey } from '../notes/signedNote.ts';
import { type Cosignature, canVerify, verifyCosignatures } from './cosignature.ts';
import { parseHttpUrl, URL_RULE } from './url.ts';

/** A witness: its verifier key, and its URL, if known. */
export type PolicyWitness = { key: VerifierKey; url: string | undefined };

/** The known witnesses, and the number of them that must have cosigned a checkpoint. */
export type Policy = { witnesses: readonly PolicyWitness[]; quorum: number };

/** The options of a policy, as text. */
export type PolicyOptions = { witness?: readonly string[]; quorum?: string };

/**
 * Parses the witnesses of a policy, each as VKEY or `VKEY URL`, and its quorum; the default is more than half.
 * @throws NotVerified with a message for the operator
 */
export function parsePolicy(witnesses: readonly string[], quorum?: string): Policy {
  const parsed = witnesses.map(parseWitness);
  const keys = new Set(parsed.map(({ key }) => toHex(key.publicKey)));
  if (keys.size < parsed.length) throw new NotVerified('two witnesses have the same key');
  const names = new Set(parsed.map(({ key }) => key.name));
  if (names.size < parsed.length) throw new NotVerified('two witnesses have the same name');
  const number = Number(quorum ?? Math.floor(parsed.length / 2) + 1);
  if (!(Number.isInteger(number) && number >= 1 && number <= parsed.length))
    throw new NotVerified(`the quorum must be a number from 1 to ${parsed.length}, the number of witnesses`);
  return { witnesses: parsed, quorum: number };
}

function parseWitness(text: string): PolicyWitness {
  const [vkey = '', address, ...rest] = text.trim().split(/\s+/);
  const key = parseVerifierKey(vkey, ['cosignature', 'mlDsa44']);
  const url = address === undefined ? undefined : parseHttpUrl(address);
  if (rest.length > 0 || (address !== undefined && url === undefined))
    throw new NotVerified(`a witness must be a verifier key, and ${URL_RULE}`);
  return { key, url };
}

/** Parses a policy without witnesses whose signatures Node cannot verify; `print` gets their names. @throws Error */
export function openPolicy(
  { witness = [], quorum }: PolicyOptions,
  print: (line: string) => void,
  isVerifiable = canVerify,
): Policy | undefined {
  if (witness.length === 0 && quorum === undefined) return undefined;
  if (witness.length === 0) throw new Error('--quorum requires --witness.');
  const policy = parsePolicy(witness, quorum);
  const witnesses = policy.witnesses.filter(({ key }) => isVerifiable(key));
  for (const { key } of policy.witnesses.filter((witness) => !witnesses.includes(witness)))
    print(
      `the witness ${key.name} is not counted: Node ${process.versions.node} cannot verify ML-DSA-44 signatures`,
    );
  if (witnesses.length < policy.quorum)
    throw new Error(
      `the quorum of ${policy.quorum} cannot be reached with ${witnesses.length} witnesses; ML-DSA-44 requires Node 24.6 or later.`,
    );
  return { ...policy, witnesses };
}

/** The time until which a quorum vouches for a checkpoint, in seconds since 1970; undefined without a quorum. */
export function quorumTime(cosignatures: readonly Cosignature[], { quorum }: Policy): number | undefined {
  const times = cosignatures.map(({ time }) => time).toSorted((a, b) => b - a);
  return times[quorum - 1];
}

/** Clocks differ by less: the time of a cosignature that is further in the future cannot be used. */
export const MAX_CLOCK_DIFFERENCE_MS = 5 * 60_000;

/** The valid cosignatures, and the time of their quorum. @throws NotVerified if one is invalid, or without a quorum */
export function countCosignatures(
  note: string,
  policy: Policy,
  now: Date,
): { cosignatures: Cosignature[]; time: number } {
  const keys = policy.witnesses.map(({ key }) => key);
  const cosignatures = verifyCosignatures(note, keys, (now.getTime() + MAX_CLOCK_DIFFERENCE_MS) / 1_000);
  const time = quorumTime(cosignatures, policy);
  if (time !== undefined) return { cosignatures, time };
  const future = verifyCosignatures(note, keys).length - cosignatures.length;
  const others = future > 0 ? `, and ${future} whose time is in the future` : '';
  throw new NotVerified(`it has ${cosignatures.length} of ${policy.quorum} required cosignatures${others}`);
}
