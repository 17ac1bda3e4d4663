import { NotVerified } from '../notes/notVerified.ts';
import { parseVerifierKey, type VerifierKey } from '../notes/signedNote.ts';
import type { Cosignature } from './cosignature.ts';

/** A witness: its verifier key, and where it is reached, if that is known. */
export type PolicyWitness = { key: VerifierKey; url: string | undefined };

/** Which witnesses are known, and how many of them must have signed a checkpoint. */
export type Policy = { witnesses: readonly PolicyWitness[]; quorum: number };

/**
 * Parses the witnesses of a policy, each as VKEY or `VKEY URL`, and its quorum, by default more than half of them.
 * @throws NotVerified with a message for the operator
 */
export function parsePolicy(witnesses: readonly string[], quorum?: string): Policy {
  const parsed = witnesses.map(parseWitness);
  const keys = parsed.map(({ key }) => key.publicKey.toString('hex'));
  if (new Set(keys).size < keys.length) throw new NotVerified('two witnesses have the same key');
  const number = Number(quorum ?? Math.floor(parsed.length / 2) + 1);
  if (!(Number.isInteger(number) && number >= 1 && number <= parsed.length))
    throw new NotVerified(`the quorum must be a number from 1 to ${parsed.length}, the number of witnesses`);
  return { witnesses: parsed, quorum: number };
}

function parseWitness(text: string): PolicyWitness {
  const [vkey = '', address, ...rest] = text.trim().split(/\s+/);
  const key = parseVerifierKey(vkey, ['cosignature', 'mlDsa44']);
  const url = address === undefined ? undefined : URL.parse(address);
  const isUrl =
    url && /^https?:$/.test(url.protocol) && url.username + url.password + url.search + url.hash === '';
  if (rest.length > 0 || (address !== undefined && !isUrl))
    throw new NotVerified(
      'a witness must be a verifier key, and an http or https URL without user, query and fragment',
    );
  return { key, url: url?.href.replace(/\/+$/, '') };
}

/** Since when a quorum has seen no larger checkpoint, in seconds since 1970; undefined if too few have signed. */
export function quorumTime(cosignatures: readonly Cosignature[], { quorum }: Policy): number | undefined {
  const times = cosignatures.map(({ time }) => time).toSorted((one, other) => other - one);
  return times[quorum - 1];
}
