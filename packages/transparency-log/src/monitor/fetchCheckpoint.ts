import { isSameHead, type TreeHead } from '../merkle/treeHead.ts';
import { decodeUtf8 } from '../notes/encoding.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { MAX_CLOCK_DIFFERENCE_MS } from '../witness/policy.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import { checkPolicy, type PolicyCheck } from './checkPolicy.ts';
import { compareHeads, isShown, searchFork } from './consistency.ts';
import { type LogClient, LogUnavailable } from './logClient.ts';
import { describe, findLargest, openReceived, type Received, shownBy } from './received.ts';
import { MAX_RETRIES, RETRY_INTERVAL_MS, type Rereading } from './rereading.ts';
import { knownCheckpoints, type State } from './state.ts';
import { type WitnessOptions, witnessCheckpoints } from './witnessCheckpoints.ts';

export type FetchOptions = WitnessOptions &
  PolicyCheck & {
    client: Pick<LogClient, 'checkpoint' | 'tile'>;
    state: State;
    /** Checkpoints from others; this log must be consistent with them. */
    known?: readonly Received[];
    sleep: (ms: number) => Promise<void>;
    rereading: Rereading;
    /** Called with each new checkpoint before anything else is fetched, so that it is not lost. */
    onReceived: (state: State) => Promise<void>;
  };

/** The checkpoint that the log serves, and the state that includes it. */
type Fetched = {
  checkpoint: Received;
  state: State;
  /** The time of the quorum's cosignatures, in seconds since 1970. */
  cosignedAt: number | undefined;
};

/** The number of checkpoints that wait for their tiles: at one per minute, more than half a day. */
const MAX_PENDING = 1_000;
/** As JSON, this fits into the state file. */
const MAX_PENDING_BYTES = 24 * 1024 * 1024;

/** Fetches the current checkpoint. The state has all checkpoints that were received. @throws Alarm, LogUnavailable */
export async function fetchCheckpoint(options: FetchOptions): Promise<Fetched> {
  const { client, known = [] } = options;
  compareHeads(options.state); // the last check may have been killed before its alarm
  let state = await remember([...known, ...(await witnessCheckpoints(options))], options.state, options);
  for (let retries = 0; ; retries++) {
    const isLast = retries === MAX_RETRIES;
    const bytes = await client.checkpoint();
    const received = await orAlarm(() => receive(bytes, options));
    if (received instanceof Alarm) {
      if (isLast) throw received;
    } else {
      state = await remember([received], state, options);
      const checkpoint = sameAs(received, state) as Received;
      const larger = largerThan(checkpoint, state);
      const checked = await orAlarm(() => checkPolicy(checkpoint, options));
      if (!larger && !(checked instanceof Alarm)) return { checkpoint, state, cosignedAt: checked };
      if (isLast) return judge(checkpoint, larger, checked, { ...options, state });
    }
    await options.sleep(RETRY_INTERVAL_MS);
  }
}

/** The result of `work`, or the alarm that it throws: another attempt may succeed. */
async function orAlarm<T>(work: () => T | Promise<T>): Promise<T | Alarm> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Alarm) return error;
    throw error;
  }
}

/** Judges a checkpoint that has a problem, or is too small, after all retries. @throws Alarm, LogUnavailable */
async function judge(
  checkpoint: Received,
  larger: Received | undefined,
  checked: Alarm | number | undefined,
  options: FetchOptions,
): Promise<never> {
  const { state, policy } = options;
  const [problem, cosignedAt = 0] = checked instanceof Alarm ? [checked] : [undefined, checked];
  try {
    const isBeginning = await searchFork(checkpoint, state, options);
    if (larger) {
      // The larger checkpoint may wait for its cosignatures, unless a quorum has signed the smaller one since.
      const isSignedSince = cosignedAt * 1_000 > Date.parse(larger.receivedAt) + MAX_CLOCK_DIFFERENCE_MS;
      if (!(isBeginning && policy && !isSignedSince && (await isShown(larger, options))))
        throw rollback(checkpoint, larger, isBeginning);
      throw new LogUnavailable(
        `the log shows ${describe(checkpoint)} with its cosignatures, and the tiles of ${describe(larger)}, which it has signed before`,
      );
    }
  } catch (error) {
    throw error instanceof LogUnavailable && problem ? problem : error; // even if the log does not respond
  }
  throw problem;
}

const sameAs = (head: TreeHead, state: State): Received | undefined =>
  knownCheckpoints(state).find((other) => isSameHead(other, head));

/** @throws Alarm */
async function receive(bytes: Buffer, { key, now }: FetchOptions): Promise<Received> {
  try {
    return await openReceived({ note: decodeUtf8(bytes), receivedAt: now().toISOString() }, key);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new Alarm('invalid checkpoint', error.message, [{ name: 'received.checkpoint', content: bytes }]);
  }
}

/** Adds checkpoints to the state before they are compared. @throws Alarm */
async function remember(
  received: readonly Received[],
  before: State,
  { onReceived }: FetchOptions,
): Promise<State> {
  const state = received.reduce(withCheckpoint, before);
  try {
    if (state !== before) await onReceived(state);
  } finally {
    compareHeads(state); // even if writing the state failed
  }
  const pending = state.pending.filter((one) => !one.shownBy || one.mayBeAhead); // files are not limited
  const bytes = pending.reduce((sum, { note }) => sum + Buffer.byteLength(note), 0);
  if (pending.length > MAX_PENDING || bytes > MAX_PENDING_BYTES) throw withheld(pending);
  return state;
}

/** Adds a checkpoint, or replaces an equal one: its cosignatures may be newer, or now the log itself serves it. */
function withCheckpoint(state: State, one: Received): State {
  const known = sameAs(one, state);
  if (!known) return { ...state, pending: [...state.pending, one] };
  if (one.shownBy && (one.mayBeAhead || !known.mayBeAhead)) return state;
  const isEarlier = one.receivedAt < known.receivedAt; // the clock was ahead
  if (one.note === known.note && one.shownBy === known.shownBy && !isEarlier) return state;
  const newer = known.shownBy || isEarlier ? one : { ...one, receivedAt: known.receivedAt };
  const replace = (other: Received) => (other === known ? newer : other);
  const checkpoint = state.checkpoint && replace(state.checkpoint);
  return { ...state, checkpoint, pending: state.pending.map(replace) };
}

/** The largest checkpoint of more events that the log must serve; if possible, one that it has served itself. */
function largerThan({ size }: TreeHead, state: State): Received | undefined {
  const larger = knownCheckpoints(state).filter((one) => !one.mayBeAhead && one.size > size);
  return findLargest(larger.filter((one) => !one.shownBy)) ?? findLargest(larger);
}

function rollback(received: Received, larger: Received, isBeginning: boolean): Alarm {
  const relation = isBeginning ? 'which are' : 'and does not show whether they are';
  const message = `the log has signed ${larger.size} events${shownBy(larger)}, and now signs ${received.size}, ${relation} the first of them`;
  return new Alarm('rollback', message, checkpointFiles(received, larger));
}

function withheld(pending: readonly Received[]): Alarm {
  const first = pending[0] as Received;
  const message = `since ${first.receivedAt} the log has signed ${pending.length} checkpoints, and shown the tiles of none`;
  return new Alarm('withheld', message, checkpointFiles(pending.at(-1) as Received, first));
}
