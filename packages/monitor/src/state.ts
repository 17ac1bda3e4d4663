import { isSameHead, type VerifiedTiles } from '@event-sourced/tlog';
import type { Received } from './received.ts';

/** A stub that no record has named yet. Once the log has `due` events, one of them must be its record. */
export type UnnamedStub = { index: number; entry: string; due?: number };

/** What was read with --events: the first `index` events, up to `position`. `neverRead`: erased before they were read. */
export type EventsRead = {
  index: number;
  position?: string | undefined;
  unnamed: readonly UnnamedStub[];
  erased: number;
  records: number;
  neverRead: number;
};

/** What a monitor remembers of a log: at most three checkpoints. */
export type State = {
  /** When the log was last checked, or the first attempt, in RFC 3339. */
  checkedAt?: string | undefined;
  /** The last checkpoint for which all entries were compared with its tree. */
  compared?: Received | undefined;
  /** The partial tiles of its tree by path: after a rollback, the log may no longer serve them. */
  tiles: ReadonlyMap<string, Uint8Array>;
  /** The first checkpoint that no compared tree has included yet. Only such a tree removes it. */
  first?: Received | undefined;
  /** The largest checkpoint, if no compared tree has included it yet. */
  largest?: Received | undefined;
  /** What was read with --events. */
  events?: EventsRead | undefined;
};

export const NEW_STATE: State = { tiles: new Map() };

export const keptCheckpoints = ({ compared, first, largest }: State): Received[] =>
  [compared, first, largest].filter((one) => one !== undefined);

/** Adds a checkpoint, or replaces an equal one: its cosignatures may be newer, or now the log itself serves it. */
export function keep(state: State, one: Received): State {
  const equal = keptCheckpoints(state).find((other) => isSameHead(other, one));
  if (!equal) {
    const { first = one, largest = one } = state;
    return { ...state, first, largest: one.size > largest.size ? one : largest };
  }
  if (one.shownBy || (one.note === equal.note && !equal.shownBy && one.receivedAt >= equal.receivedAt))
    return state;
  const isFirst = equal.shownBy || one.receivedAt < equal.receivedAt; // or the clock was ahead
  const newer = isFirst ? one : { ...one, receivedAt: equal.receivedAt };
  const replace = (other?: Received) => (other && isSameHead(other, one) ? newer : other);
  const { compared, first, largest } = state;
  return { ...state, compared: replace(compared), first: replace(first), largest: replace(largest) };
}

/** The state after all entries of a checkpoint were compared with its tree, which includes all smaller checkpoints. */
export function withCompared(state: State, compared: Received, { partial }: VerifiedTiles): State {
  const ahead = (one?: Received) => (one && one.size > compared.size ? one : undefined);
  const largest = ahead(state.largest);
  return { ...state, compared, tiles: partial, first: ahead(state.first) ?? largest, largest };
}
