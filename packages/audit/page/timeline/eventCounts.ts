import { Bars } from '../../src/histogram/bars.ts';
import type { Api } from '../api.ts';
import { readHistogram, type ShownEvent } from '../events.ts';
import type { Counts } from './timelineState.ts';

/** A histogram of the service counts 10 000 events at most. */
const MAX_HISTOGRAMS = 5;

/** Counts of matching events over time: those of the service, and live events after them. */
export class EventCounts {
  readonly #query: URLSearchParams;
  readonly #isFiltered: boolean;
  readonly #bars = new Bars();
  #matching = 0;
  #isComplete = false;
  /** The position up to which the service has counted; later events are counted when they arrive. */
  #countedTo: bigint | undefined;
  #uncounted: ShownEvent[] = [];

  constructor(query: URLSearchParams, isFiltered: boolean) {
    this.#query = query;
    this.#isFiltered = isFiltered;
  }

  /** Undefined until the service has counted. */
  get shown(): Counts | undefined {
    if (this.#countedTo === undefined) return undefined;
    return { bars: this.#bars.counts(), matching: this.#matching, isComplete: this.#isComplete };
  }

  async read(api: Api, signal: AbortSignal): Promise<void> {
    let before: string | undefined;
    let end: bigint | undefined;
    for (let i = 0; i < MAX_HISTOGRAMS && (i === 0 || before !== undefined); i++) {
      const query = new URLSearchParams([
        ...this.#query,
        ...(before === undefined ? [] : [['before', before]]),
      ]);
      const counts = await readHistogram(api, query, signal);
      this.#bars.merge(counts);
      this.#matching += counts.events;
      end ??= BigInt(counts.end);
      before = counts.before;
    }
    this.#isComplete = before === undefined;
    this.#countedTo = end;
    if (this.#isFiltered) this.#addAskedRange();
    this.add([]);
  }

  /** The axis has the asked range, by default until now: that nothing matches there is an answer, too. */
  #addAskedRange(): void {
    const [since, until] = ['since', 'until'].map((name) => this.#query.get(name));
    if (since) this.#bars.add(Date.parse(since), 0);
    this.#bars.add(until ? Date.parse(until) : Date.now(), 0);
  }

  /** Takes live events; the service may have counted them already. */
  add(events: readonly ShownEvent[]): void {
    this.#uncounted.push(...events);
    const to = this.#countedTo;
    if (to === undefined) return;
    const later = this.#uncounted.splice(0).filter(({ position }) => position > to);
    this.#matching += later.length;
    for (const { time } of later) if (Number.isFinite(time)) this.#bars.add(time);
  }
}
