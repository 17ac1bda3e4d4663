import { VerifiedTiles } from '../merkle/verifiedTiles.ts';
import { decodeUtf8 } from '../notes/encoding.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { MAX_CLOCK_DIFFERENCE_MS } from '../witness/policy.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import { checkPolicy } from './checkPolicy.ts';
import { compareHeads, isShown, searchFork } from './consistency.ts';
import { witnessCheckpoints } from './fromOthers.ts';
import { NotChecked } from './notChecked.ts';
import { describe, openReceived, type Received, shownBy } from './received.ts';
import { largerThan, remember, sameAs } from './remember.ts';
import { wrongCheckpoint } from './reread.ts';

/**
 * Fetches the current checkpoint, with the state that has all checkpoints that were received, and the time of the
 * quorum's cosignatures, in seconds since 1970. @throws Alarm, NotChecked
 */
export async function fetchCheckpoint(check: Check) {
  const { known = [], state: before } = check;
  compareHeads(before); // the last check may have been killed before its alarm
  let state = await remember([...known, ...(await witnessCheckpoints(check))], before, check);
  let refused: Received | undefined;
  const fetch = async () => {
    refused = undefined;
    const received = await receive(check, () => check.client.checkpoint());
    state = await remember([received], state, check);
    const checkpoint = sameAs(received, state) as Received;
    refused = checkpoint;
    const cosignedAt = checkPolicy(checkpoint, check);
    const larger = largerThan(checkpoint, state);
    if (larger) throw rollback(checkpoint, larger);
    return { checkpoint, state, cosignedAt };
  };
  return check.reread(fetch, wrongCheckpoint).catch((error) => {
    if (!(refused && error instanceof Alarm)) throw error;
    return judge(refused, error, { ...check, state });
  });
}

/** @throws Alarm, NotChecked */
export async function receive({ key, now }: Check, fetch: () => Promise<Buffer>): Promise<Received> {
  const bytes = await fetch();
  try {
    return await openReceived({ note: decodeUtf8(bytes), receivedAt: now().toISOString() }, key);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new Alarm('invalid checkpoint', error.message, [{ name: 'received.checkpoint', content: bytes }]);
  }
}

/**
 * Judges a checkpoint that each attempt has refused with an alarm. A fork comes first, since it is proven to others;
 * then a rollback. @throws Alarm, NotChecked
 */
async function judge(checkpoint: Received, alarm: Alarm, check: Check): Promise<never> {
  const isOnlySmaller = alarm.kind === 'rollback';
  const larger = largerThan(checkpoint, check.state);
  try {
    const isBeginning = await searchFork(checkpoint, check);
    if (!larger) throw alarm;
    const cosignedAt = isOnlySmaller ? checkPolicy(checkpoint, check) : 0;
    if (!isBeginning || !(await mayWait(larger, cosignedAt, check)))
      throw rollback(checkpoint, larger, isBeginning);
    throw new NotChecked(
      `the log shows ${describe(checkpoint)} with its cosignatures, and the tiles of ${describe(larger)}, which it has signed before`,
    );
  } catch (error) {
    throw error instanceof NotChecked && !isOnlySmaller ? alarm : error; // even if the log does not respond
  }
}

/** Whether a larger checkpoint may wait for its cosignatures: its tiles are shown, and no quorum has signed since. */
async function mayWait(
  larger: Received,
  cosignedAt = 0,
  { policy, client, reread }: Check,
): Promise<boolean> {
  const isSignedSince = cosignedAt * 1_000 > Date.parse(larger.receivedAt) + MAX_CLOCK_DIFFERENCE_MS;
  if (!policy || isSignedSince) return false;
  return isShown(async () => void (await VerifiedTiles.open(larger, (tile) => client.tile(tile))), reread);
}

function rollback(received: Received, larger: Received, isBeginning = false): Alarm {
  const relation = isBeginning ? 'which are' : 'and does not show whether they are';
  const message = `the log has signed ${larger.size} events${shownBy(larger)}, and now signs ${received.size}, ${relation} the first of them`;
  return new Alarm('rollback', message, checkpointFiles(received, larger));
}
