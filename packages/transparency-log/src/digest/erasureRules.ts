import type { RecordedEvent } from '@event-sourced/event-log';
import { EVENTS_ERASED, type EventDigest, parseRecord } from '@event-sourced/event-log/erasure';

/** What contradicts the rules, and the index of its event, from 0. */
export type ErasureProblem = {
  kind: 'unrecorded erasure' | 'false record';
  index: number;
  problem: string;
};

/**
 * The rules of erasures: (1) a later record names each stub; (2) each name in a record is an earlier stub; (3) no stub has
 * the type of a record. Takes the events that a verified checkpoint covers, in log order.
 */
export class ErasureRules {
  /** The indices of stubs that no record has named yet. */
  readonly unnamed: Set<number>;
  /**
   * What a record names, and was not read as a stub: by index, with the index of the record. It may have been erased after
   * it was read; read it again, and call `confirm`.
   */
  readonly unconfirmed = new Map<number, number>();
  /** The number of erased events and of records so far. */
  erased = 0;
  records = 0;
  readonly #stubs: Set<number>;
  readonly #problems: ErasureProblem[] = [];

  /** `unnamed`: the stubs of earlier events that no record had named. */
  constructor(unnamed: Iterable<number> = []) {
    this.unnamed = new Set(unnamed);
    this.#stubs = new Set(this.unnamed);
  }

  /** Takes the event at an index; `digest` is that of a stub. */
  add(index: number, { type, data }: Pick<RecordedEvent, 'type' | 'data'>, digest?: EventDigest): void {
    if (digest) this.#addStub(index, digest);
    else if (type === EVENTS_ERASED) this.#addRecord(index, parseRecord(data));
  }

  /** An unconfirmed event was read again, as a stub with this digest that the tree confirms. */
  confirm(index: number, digest: EventDigest): void {
    if (!this.unconfirmed.delete(index)) return;
    this.#addStub(index, digest);
    this.unnamed.delete(index);
  }

  /**
   * Call it after the last event, when every unconfirmed event was read again. `isDue`: whether the record of a stub must
   * be there by now.
   */
  problems(isDue: (index: number) => boolean = () => true): ErasureProblem[] {
    const unrecorded = Array.from([...this.unnamed].filter(isDue), (index): ErasureProblem => {
      return { kind: 'unrecorded erasure', index, problem: 'no later record names this erased event' };
    });
    const wrong = Array.from(this.unconfirmed, ([name, index]): ErasureProblem => {
      return { kind: 'false record', index, problem: `it names index ${name}, whose event is not erased` };
    });
    return [...this.#problems, ...unrecorded, ...wrong];
  }

  #addStub(index: number, { type }: EventDigest): void {
    this.erased++;
    this.#stubs.add(index);
    if (type !== EVENTS_ERASED) return void this.unnamed.add(index);
    const problem = 'this erased event was a record of erased events';
    this.#problems.push({ kind: 'unrecorded erasure', index, problem });
  }

  #addRecord(index: number, names: readonly number[] | undefined): void {
    const last = names?.at(-1) ?? index;
    if (!names || last >= index) {
      const problem = names ? `it names index ${last}, which does not precede it` : 'it is malformed';
      this.#problems.push({ kind: 'false record', index, problem });
      return;
    }
    this.records++;
    for (const name of names) {
      if (!this.#stubs.has(name) && !this.unconfirmed.has(name)) this.unconfirmed.set(name, index);
      this.unnamed.delete(name);
    }
  }
}
