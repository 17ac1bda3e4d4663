import { describeEntry, eventOfEntry } from '../entries/entry.ts';
import type { LeafEvent } from '../entries/leaf.ts';
import { Duplicates } from './duplicates.ts';

/** Clocks of instances differ, and an append may wait for the store. */
const TOLERANCE_MS = 5 * 60_000;

/** An event's problem, or when it occurred, as text and in ms since 1970; undefined for an unknown type. */
export type CheckEvent = (
  event: LeafEvent,
) => { problem: string } | { occurredAt: string; time: number } | undefined;

/** Checks events in log order: their content, when they occurred, and that they occur once. */
export class EventCheck {
  readonly #now: () => Date;
  readonly #check: CheckEvent;
  readonly duplicates: Duplicates;
  /** Later than this is in the future, as of the last time the clock was read. */
  #latestAllowed = Number.NEGATIVE_INFINITY;
  /** The latest time of an event so far that is not in the future, in milliseconds since 1970. */
  latestTime: number | undefined;
  unknown = 0;

  /** `duplicates` finds events that occur twice: this is its first pass. */
  constructor(
    now: () => Date,
    latestTime: number | undefined,
    check: CheckEvent = () => undefined,
    duplicates = new Duplicates(),
  ) {
    this.#now = now;
    this.#check = check;
    this.latestTime = latestTime;
    this.duplicates = duplicates;
  }

  /** Takes an entry that was checked in an earlier run. */
  addEarlier(entry: Buffer): void {
    const event = eventOfEntry(entry);
    if (event) this.duplicates.addEarlier(event);
  }

  /** What is wrong with the event of an entry, in a sentence; undefined if nothing is. */
  problem(entry: Buffer): string | undefined {
    const event = eventOfEntry(entry);
    const problem = event
      ? this.#problem(event)
      : 'it is not an event in canonical form, or too large for an entry';
    return problem && `${describeEntry(entry)}: ${problem}`;
  }

  /** The second pass: whether an event is a duplicate, in a sentence; undefined if it is not. */
  duplicate(entry: Buffer, ordinal: number): string | undefined {
    const event = eventOfEntry(entry);
    const problem = event && this.duplicates.problem(event, ordinal);
    return problem && `${describeEntry(entry)}: ${problem}`;
  }

  #problem(event: LeafEvent): string | undefined {
    this.duplicates.add(event);
    const found = this.#check(event);
    if (found) return 'problem' in found ? found.problem : this.#timeProblem(found);
    this.unknown++;
    return undefined;
  }

  #timeProblem({ occurredAt, time }: { occurredAt: string; time: number }): string | undefined {
    if (time > this.#latestAllowed) this.#latestAllowed = this.#now().getTime() + TOLERANCE_MS;
    if (time > this.#latestAllowed) return `it occurs in the future, at ${occurredAt}`;
    const latest = this.latestTime;
    if (latest === undefined || time > latest) this.latestTime = time;
    if (latest !== undefined && time < latest - TOLERANCE_MS)
      return `it occurred at ${occurredAt}, long before an event before it, at ${new Date(latest).toISOString()}`;
    return undefined;
  }
}
