import type { Checkpoint } from '../notes/checkpoint.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { countCosignatures, type Policy } from '../witness/policy.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import type { Received } from './received.ts';

/** The time of the quorum's cosignatures, in seconds since 1970; undefined without a policy. @throws Alarm */
export function checkPolicy(checkpoint: Received, check: Check): number | undefined {
  const { policy, expectGrowth } = check;
  const cosignedAt = policy && checkCosignatures(checkpoint, policy, check);
  if (!policy || expectGrowth) checkGrowth(checkpoint, check);
  return cosignedAt;
}

function checkCosignatures(checkpoint: Checkpoint, policy: Policy, check: Check): number {
  const now = check.now();
  try {
    const { time } = countCosignatures(checkpoint.note, policy, now);
    if (now.getTime() - time * 1_000 <= (check.staleAfterMs ?? Number.POSITIVE_INFINITY)) return time;
    const message = `the checkpoint of ${checkpoint.size} events was last signed by a quorum of witnesses at ${new Date(time * 1_000).toISOString()}, longer ago than --stale-after allows`;
    throw new Alarm('stale', message, checkpointFiles(checkpoint));
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    const message = `the checkpoint of ${checkpoint.size} events cannot be relied on: ${error.message}`;
    throw new Alarm('not cosigned', message, checkpointFiles(checkpoint));
  }
}

function checkGrowth(checkpoint: Received, { staleAfterMs, now }: Check): void {
  const { size, receivedAt } = checkpoint;
  if (staleAfterMs === undefined || now().getTime() - Date.parse(receivedAt) <= staleAfterMs) return;
  const message = `the log has had ${size} events since ${receivedAt}, longer ago than --stale-after allows`;
  throw new Alarm('stale', message, checkpointFiles(checkpoint));
}
