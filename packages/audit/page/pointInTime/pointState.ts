import type { Problem } from '../problem.ts';
import type { Change } from '../states.ts';

/** The users of the newest events, with the number of their events. */
export type Users = { counts: readonly (readonly [user: string, events: number])[]; events: number };

export type PointState = {
  status: 'loading' | 'shown' | 'failed';
  problem?: Problem;
  users?: Users;
  /** The changes of a user's entities, in log order, and the point in time in milliseconds since 1970. */
  shown?: { user: string; changes: readonly Change[]; times: readonly number[]; at: number };
  /** The number of erased events of the log; undefined until it is known. */
  erased?: number;
  /** The maximum number of rows. */
  rows: number;
};

export const ROWS = 500;
export const NO_STATES: PointState = { status: 'loading', rows: ROWS };
