import type { BarCounts } from '../../src/histogram/bars.ts';
import type { ShownEvent } from '../events.ts';
import type { Problem } from '../problem.ts';

/** The counts of matching events over time. `isComplete`: all were counted, otherwise the newest. */
export type Counts = { bars: BarCounts; matching: number; isComplete: boolean };

export type TimelineState = {
  /** `loading`: what is shown belongs to an earlier question. */
  status: 'loading' | 'shown' | 'failed';
  problem?: Problem;
  /** The rows, newest first; undefined before the first response. */
  events?: readonly ShownEvent[];
  /** The positions of the rows that are open. */
  open: ReadonlySet<bigint>;
  /** The index of the page of rows. */
  page: number;
  hasOlder: boolean;
  isTurning: boolean;
  /** The number of events that arrived while an older page is shown. */
  unseen: number;
  counts?: Counts;
  /** Whether `counts` belong to an earlier question. */
  isCounting: boolean;
  logSize?: number | undefined;
  /** The users and types of events that were shown, for the filters. */
  users: ReadonlySet<string>;
  types: ReadonlySet<string>;
};

export const NO_EVENTS: TimelineState = {
  status: 'loading',
  open: new Set(),
  page: 0,
  hasOlder: false,
  isTurning: false,
  isCounting: true,
  unseen: 0,
  users: new Set(),
  types: new Set(),
};
