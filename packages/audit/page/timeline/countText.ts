import { count, counted } from '../text.ts';
import type { TimelineState } from './timelineState.ts';

/** How many events match, of how many that the log has. */
export function countText({ counts, isCounting, logSize }: TimelineState, isFiltered: boolean): string {
  if (!counts || isCounting) return 'Counting…';
  const { matching, isComplete } = counts;
  const atLeast = isComplete ? '' : 'at least ';
  const size = logSize === undefined ? undefined : Math.max(logSize, matching);
  const text = isFiltered
    ? `${atLeast}${count(matching)}${size === undefined ? '' : ` of ${count(size)}`} events match`
    : isComplete || size === undefined
      ? `${atLeast}${counted(matching, 'event')}`
      : counted(size, 'event');
  return text.replace(/^a/, 'A');
}
