import { NotVerified } from '../notes/notVerified.ts';
import { cosignaturesOf } from '../witness/cosignature.ts';
import { keysOf, missingCosignatures, type Policy, quorumTime } from '../witness/policy.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import { formatTime } from './durations.ts';
import type { ReceivedCheckpoint } from './receivedCheckpoint.ts';

export type PolicyCheck = {
  /** Whose cosignatures a checkpoint must have. */
  policy?: Policy | undefined;
  /** How old the cosignatures of a quorum, or the last growth, may be. */
  staleAfterMs?: number | undefined;
  /** Whether the log must grow, also with a policy. */
  expectGrowth?: boolean | undefined;
  now: () => Date;
};

/** When the newest cosignature that the policy counts was made, in seconds since 1970; undefined without one. @throws Alarm */
export function checkPolicy(checkpoint: ReceivedCheckpoint, check: PolicyCheck): number | undefined {
  const { policy, expectGrowth } = check;
  const cosignedAt = policy && checkCosignatures(checkpoint, policy, check);
  if (!policy || expectGrowth) checkGrowth(checkpoint, check);
  return cosignedAt;
}

function checkCosignatures(checkpoint: ReceivedCheckpoint, policy: Policy, check: PolicyCheck): number {
  const alarm = (kind: 'not cosigned' | 'stale', problem: string): Alarm =>
    new Alarm(kind, `the checkpoint of ${checkpoint.size} events ${problem}`, checkpointFiles(checkpoint));
  try {
    const cosignatures = cosignaturesOf(checkpoint.note, keysOf(policy));
    const time = quorumTime(cosignatures, policy);
    if (time === undefined) throw alarm('not cosigned', `has ${missingCosignatures(cosignatures, policy)}`);
    const signed = `was last signed by a quorum of witnesses at ${formatTime(time)}`;
    const ageMs = check.now().getTime() - time * 1_000;
    const { staleAfterMs = Number.POSITIVE_INFINITY } = check;
    if (ageMs > staleAfterMs) throw alarm('stale', `${signed}, longer ago than --stale-after allows`);
    // Until then, it would not be noticed that nothing is signed.
    if (-ageMs > staleAfterMs)
      throw alarm('stale', `${signed}, further in the future than --stale-after allows`);
    return Math.max(...cosignatures.map((one) => one.time));
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw alarm('not cosigned', `cannot be relied on: ${error.message}`);
  }
}

function checkGrowth(checkpoint: ReceivedCheckpoint, { staleAfterMs, now }: PolicyCheck): void {
  const { size, receivedAt } = checkpoint;
  if (staleAfterMs === undefined || now().getTime() - Date.parse(receivedAt) <= staleAfterMs) return;
  const message = `the log has had ${size} events since ${receivedAt}, longer ago than --stale-after allows`;
  throw new Alarm('stale', message, checkpointFiles(checkpoint));
}
