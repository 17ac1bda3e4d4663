import { describeEntry, eventOfEntry } from '../audit/entry.ts';
import { isKnownType, plantContentProblem } from '../plants/events.ts';
import { parseRfc3339 } from '../time/rfc3339.ts';

/** Clocks of instances differ, and an append may wait for the store. */
const TOLERANCE_MS = 5 * 60_000;

/** Checks events in log order: that this service may have appended them, and when they occurred. */
export class EventCheck {
  readonly #now: () => Date;
  /** When the last event occurred, in milliseconds since 1970. */
  #last: number | undefined;

  constructor(now: () => Date) {
    this.#now = now;
  }

  /** What is wrong with the event of an entry, in a sentence; undefined if nothing is. */
  problem(entry: Buffer): string | undefined {
    const problem = this.#problem(entry);
    return problem === undefined ? undefined : `${describeEntry(entry)}: ${problem}`;
  }

  #problem(entry: Buffer): string | undefined {
    const event = eventOfEntry(entry);
    if (!event) return 'it is not an event in canonical form, or too large for an entry';
    if (!isKnownType(event.type)) return undefined;
    const problem = plantContentProblem(event);
    if (problem !== undefined) return problem;
    const { occurredAt } = event.metadata as { occurredAt: string };
    const time = parseRfc3339(occurredAt) as number;
    if (time > this.#now().getTime() + TOLERANCE_MS) return `it occurs in the future, at ${occurredAt}`;
    const last = this.#last;
    this.#last = time;
    if (last !== undefined && time < last - TOLERANCE_MS)
      return `it occurred at ${occurredAt}, long before the event before it`;
    return undefined;
  }
}
