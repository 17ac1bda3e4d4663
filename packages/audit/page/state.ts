import { type CheckState, NOT_CHECKED } from './check/checkState.ts';
import { NO_STATES, type PointState } from './pointInTime/pointState.ts';
import { parseRoute, type Route, type Screen } from './route.ts';
import { NO_EVENTS, type TimelineState } from './timeline/timelineState.ts';
import { Zone } from './zone.ts';

/** Whether new events arrive: `off` before the first event stream. `problem`: why it is lost. */
export type Connection = { state: 'off' | 'connecting' | 'live' } | { state: 'lost'; problem: string };

/** Everything that is shown follows from this, and from the entity type. */
export type State = {
  session: { isSignedIn: boolean; isBusy: boolean; problem: string };
  route: Route;
  /** The fragment of each screen when it was last shown. */
  visited: Partial<Record<Screen, string>>;
  zone: Zone;
  connection: Connection;
  timeline: TimelineState;
  pointInTime: PointState;
  check: CheckState;
};

/** The state without a session: nothing of the log. */
export const signedOut = (problem = ''): State => ({
  session: { isSignedIn: false, isBusy: false, problem },
  route: parseRoute(location.hash),
  visited: {},
  zone: new Zone(),
  connection: { state: 'off' },
  timeline: NO_EVENTS,
  pointInTime: NO_STATES,
  check: NOT_CHECKED,
});
