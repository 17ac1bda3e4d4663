import type { VerifierKey } from '../notes/signedNote.ts';
import { type Cosignature, canVerify } from '../witness/cosignature.ts';
import { type Policy, parsePolicy } from '../witness/policy.ts';

/** The options of a policy, as text. */
export type PolicyOptions = { witness?: readonly string[]; quorum?: string };

/** The policy of options, with the witnesses whose keys can be verified; `print` gets the other keys. @throws Error */
export function openPolicy(
  { witness = [], quorum }: PolicyOptions,
  print: (line: string) => void,
  isVerifiable: (key: VerifierKey) => boolean = canVerify,
): Policy | undefined {
  if (witness.length === 0 && quorum === undefined) return undefined;
  if (witness.length === 0) throw new Error('--quorum requires --witness.');
  const policy = parsePolicy(witness, quorum);
  const witnesses = policy.witnesses.filter(({ key }) => isVerifiable(key));
  for (const { key } of policy.witnesses.filter((one) => !witnesses.includes(one)))
    print(
      `the witness ${key.name} is not counted: Node ${process.versions.node} cannot verify ML-DSA-44 signatures`,
    );
  if (witnesses.length < policy.quorum)
    throw new Error(
      `the quorum of ${policy.quorum} cannot be reached with ${witnesses.length} witnesses; ML-DSA-44 requires Node 24.6 or later.`,
    );
  return { ...policy, witnesses };
}

export const keysOf = ({ witnesses }: Policy): VerifierKey[] => witnesses.map(({ key }) => key);

/** How many cosignatures there are, for messages. */
export function missingCosignatures(cosignatures: readonly Cosignature[], { quorum }: Policy): string {
  return `${cosignatures.length} of the ${quorum} cosignatures that are required`;
}
