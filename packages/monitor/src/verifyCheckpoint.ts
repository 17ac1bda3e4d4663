import { decodeUtf8, isSameHead, NotVerified, TileMismatch, type VerifiedTiles } from '@event-sourced/tlog';
import { countCosignatures, MAX_CLOCK_DIFFERENCE_MS } from '@event-sourced/tlog/witness';
import { Alarm, checkpointFiles, mismatch } from './alarm.ts';
import type { Check } from './check.ts';
import { compareHeads, compareTrees, type Failures } from './compareTrees.ts';
import { witnessCheckpoints } from './fromOthers.ts';
import { NotChecked } from './notChecked.ts';
import { describe, findLargest, openReceived, type Received, shownBy } from './received.ts';
import { keep, keptCheckpoints, type State } from './state.ts';

/** `cosignedAt`: the time of the quorum's cosignatures, in seconds since 1970. `state` has the checkpoint. */
export type Verified = {
  checkpoint: Received;
  tree: VerifiedTiles;
  state: State;
  cosignedAt: number | undefined;
};

/** Gets the checkpoint of the log, and compares it with all others. @throws Alarm, NotChecked */
export async function verifyCheckpoint(check: Check): Promise<Verified> {
  compareHeads(keptCheckpoints(check.state)); // the last check may have been killed before its alarm
  const shown = await witnessCheckpoints(check);
  const received = await receive(check);
  const state = [...shown, received].reduce(keep, check.state);
  if (state !== check.state) await check.save(state);
  const all = [...keptCheckpoints(state), ...shown, ...check.known, received].filter(
    (one, i, checkpoints) => checkpoints.findIndex((other) => isSameHead(other, one)) === i,
  );
  const checkpoint = all.find((one) => isSameHead(one, received)) ?? received; // since it was first received

  // What is proven to others comes first. Each of these throws.
  compareHeads(all);
  const { tree, failures } = await compareTrees(checkpoint, all, { ...check, state });
  const cosignedAt = checkCosignatures(checkpoint, check);
  if (check.expectGrowth) checkGrowth(checkpoint, check);
  checkIsLargest({ checkpoint, cosignedAt }, all, failures, check);
  const failure = failures.get(checkpoint);
  if (failure instanceof TileMismatch) throw mismatch(checkpoint, failure);
  if (failure || !tree) throw failure;
  checkAhead(checkpoint, all, failures, check);
  return { checkpoint, tree, state, cosignedAt };
}

/** @throws Alarm, NotChecked */
async function receive({ client, key, now }: Check): Promise<Received> {
  const bytes = await client.checkpoint();
  try {
    return await openReceived({ note: decodeUtf8(bytes), receivedAt: now().toISOString() }, key);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new Alarm('invalid checkpoint', error.message, [{ name: 'received.checkpoint', content: bytes }]);
  }
}

/** The time of the quorum's cosignatures; undefined without a policy. @throws Alarm */
function checkCosignatures(checkpoint: Received, { policy, now, staleAfterMs }: Check): number | undefined {
  if (!policy) return undefined;
  const { size, note } = checkpoint;
  let time: number;
  try {
    ({ time } = countCosignatures(note, policy, now()));
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    const message = `the checkpoint of ${size} events cannot be relied on: ${error.message}`;
    throw new Alarm('not cosigned', message, checkpointFiles(checkpoint));
  }
  if (!isOlder(new Date(time * 1_000), staleAfterMs, now)) return time;
  const message = `the checkpoint of ${size} events was last signed by a quorum of witnesses at ${new Date(time * 1_000).toISOString()}, longer ago than --stale-after allows`;
  throw new Alarm('stale', message, checkpointFiles(checkpoint));
}

/** @throws Alarm */
function checkGrowth(checkpoint: Received, { staleAfterMs, now }: Check): void {
  const { size, receivedAt } = checkpoint;
  if (!isOlder(new Date(receivedAt), staleAfterMs, now)) return;
  const message = `the log has had ${size} events since ${receivedAt}, longer ago than --stale-after allows`;
  throw new Alarm('stale', message, checkpointFiles(checkpoint));
}

const isOlder = (time: Date, maxAgeMs: number | undefined, now: () => Date): boolean =>
  maxAgeMs !== undefined && now().getTime() - time.getTime() > maxAgeMs;

/**
 * The log must not sign fewer events than before. @throws Alarm; NotChecked if it does not respond, or if the larger
 * checkpoint may wait for its cosignatures
 */
function checkIsLargest(
  { checkpoint, cosignedAt = 0 }: Pick<Verified, 'checkpoint' | 'cosignedAt'>,
  all: readonly Received[],
  failures: Failures,
  { policy }: Check,
): void {
  const { size } = checkpoint;
  const larger = findLargest(all.filter((one) => one.size > size && !one.mayBeAhead));
  if (!larger) return;
  for (const failure of [failures.get(checkpoint), failures.get(larger)])
    if (failure instanceof NotChecked && !failure.isMissing) throw failure; // such as an instance that is starting
  const isBeginning = !failures.has(larger);
  const isSignedSince = cosignedAt * 1_000 > Date.parse(larger.receivedAt) + MAX_CLOCK_DIFFERENCE_MS;
  if (isBeginning && policy && !isSignedSince)
    throw new NotChecked(
      `the log shows ${describe(checkpoint)} with its cosignatures, and has signed ${describe(larger)} before`,
    );
  const relation = isBeginning ? 'which are' : 'and does not show whether they are';
  const message = `the log has signed ${larger.size} events${shownBy(larger)}, and now signs ${size}, ${relation} the first of them`;
  throw new Alarm('rollback', message, checkpointFiles(checkpoint, larger));
}

/** Witnesses may show larger checkpoints, but not for long. @throws Alarm */
function checkAhead(
  checkpoint: Received,
  all: readonly Received[],
  failures: Failures,
  { staleAfterMs, now, onNotice }: Check,
): void {
  for (const one of all.filter(({ size }) => size > checkpoint.size)) {
    const failure = failures.get(one);
    if (failure instanceof TileMismatch) throw mismatch(one, failure);
    if (isOlder(new Date(one.receivedAt), staleAfterMs, now)) {
      const message = `the log has signed ${describe(one)}, known since ${one.receivedAt}, and now shows ${checkpoint.size} events: longer than --stale-after allows`;
      throw new Alarm('withheld', message, checkpointFiles(checkpoint, one));
    }
    if (failure) onNotice(`the log has yet to show what it signed in ${describe(one)}: ${failure.message}`);
  }
}
