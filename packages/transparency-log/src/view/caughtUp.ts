import type { EventLog } from '@event-sourced/event-log';
import { type Follower, REACHED_TIMEOUT_MS, ViewBehind } from '@event-sourced/event-log/views';
import { unlessAborted } from '@event-sourced/node/time';

/** Waits until a view has every event that the log has now. @throws ViewBehind, StoreUnavailable */
export async function caughtUp(
  view: Pick<Follower, 'reached'>,
  log: EventLog,
  timeoutMs = REACHED_TIMEOUT_MS,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  const end = await unlessAborted(log.lastPosition(), AbortSignal.timeout(timeoutMs));
  if (end === undefined) throw new ViewBehind('The event store has not responded yet; retry.');
  await view.reached(end, undefined, Math.max(deadline - performance.now(), 0));
}
