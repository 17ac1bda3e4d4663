import { isSameHead, type TreeHead } from '../merkle/treeHead.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import { compareHeads } from './consistency.ts';
import { findLargest, type Received } from './received.ts';
import { knownCheckpoints, type State } from './state.ts';

/** The number of checkpoints that wait for their tiles: at one per minute, more than half a day. */
const MAX_PENDING = 1_000;
/** As JSON, this fits into the state file. */
const MAX_PENDING_BYTES = 24 * 1024 * 1024;

/** Adds checkpoints to a state before they are compared. @throws Alarm */
export async function remember(
  received: readonly Received[],
  before: State,
  { onReceived }: Check,
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

export const sameAs = (head: TreeHead, state: State): Received | undefined =>
  knownCheckpoints(state).find((other) => isSameHead(other, head));

/** The largest checkpoint of more events that the log must serve; if possible, one that it has served itself. */
export function largerThan({ size }: TreeHead, state: State): Received | undefined {
  const larger = knownCheckpoints(state).filter((one) => !one.mayBeAhead && one.size > size);
  return findLargest(larger.filter((one) => !one.shownBy)) ?? findLargest(larger);
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

function withheld(pending: readonly Received[]): Alarm {
  const first = pending[0] as Received;
  const message = `since ${first.receivedAt} the log has signed ${pending.length} checkpoints, and shown the tiles of none`;
  return new Alarm('withheld', message, checkpointFiles(pending.at(-1) as Received, first));
}
