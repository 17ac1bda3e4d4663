import { describeEntry, eventOfEntry } from '../audit/entry.ts';
import type { LeafEvent } from '../audit/leaf.ts';
import { isKnownType, plantContentProblem } from '../plants/events.ts';
import { parseRfc3339 } from '../time/rfc3339.ts';
import { Duplicates } from './duplicates.ts';

/** Clocks of instances differ, and an append may wait for the store. */
const TOLERANCE_MS = 5 * 60_000;

/** Checks events in log order: that this service may have appended them, when they occurred, and that they occur once. */
export class EventCheck {
  readonly #now: () => Date;
  readonly #duplicates = new Duplicates();
  /** Later than this is in the future, as of the last time the clock was read. */
  #latestAllowed = Number.NEGATIVE_INFINITY;
  /** The latest time of an event so far that is not in the future, in milliseconds since 1970. */
  latestTime: number | undefined;
  /** Events of unknown types. */
  unknown = 0;

  constructor(now: () => Date, latestTime: number | undefined) {
    this.#now = now;
    this.latestTime = latestTime;
  }

  /** What is wrong with the event of an entry, in a sentence; undefined if nothing is. */
  problem(entry: Buffer): string | undefined {
    const event = eventOfEntry(entry);
    const problem = event
      ? this.#problem(event)
      : 'it is not an event in canonical form, or too large for an entry';
    return problem && `${describeEntry(entry)}: ${problem}`;
  }

  /** Whether events may have occurred twice, which takes a second pass over them to decide. */
  get mayHaveDuplicates(): boolean {
    return this.#duplicates.hasCandidates;
  }

  /** Whether there may be more duplicates than the second pass finds. */
  get missesDuplicates(): boolean {
    return this.#duplicates.isIncomplete;
  }

  /** The second pass: whether an event is a duplicate, in a sentence; undefined if it is not. */
  duplicate(entry: Buffer, number: number): string | undefined {
    const event = eventOfEntry(entry);
    const problem = event && this.#duplicates.problem(event, number);
    return problem && `${describeEntry(entry)}: ${problem}`;
  }

  #problem(event: LeafEvent): string | undefined {
    this.#duplicates.add(event);
    if (!isKnownType(event.type)) {
      this.unknown++;
      return undefined;
    }
    return plantContentProblem(event) ?? this.#timeProblem(event);
  }

  #timeProblem({ metadata }: LeafEvent): string | undefined {
    const { occurredAt } = metadata as { occurredAt: string };
    const time = parseRfc3339(occurredAt) as number;
    if (time > this.#latestAllowed) this.#latestAllowed = this.#now().getTime() + TOLERANCE_MS;
    if (time > this.#latestAllowed) return `it occurs in the future, at ${occurredAt}`;
    const latest = this.latestTime;
    if (latest === undefined || time > latest) this.latestTime = time;
    if (latest !== undefined && time < latest - TOLERANCE_MS)
      return `it occurred at ${occurredAt}, long before an event before it, at ${new Date(latest).toISOString()}`;
    return undefined;
  }
}
