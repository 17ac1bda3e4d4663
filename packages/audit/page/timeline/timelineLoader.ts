import { type Api, readLogSize } from '../api.ts';
import type { Entities } from '../entities.ts';
import { type EventPage, readPage, type ShownEvent } from '../events.ts';
import { LiveEvents } from '../liveEvents.ts';
import { toProblem } from '../problem.ts';
import { filtersOf, queryOf } from '../route.ts';
import type { State } from '../state.ts';
import type { Store } from '../store.ts';
import { EventCounts } from './eventCounts.ts';
import { withSuggestions } from './suggestions.ts';
import { NO_EVENTS, type TimelineState } from './timelineState.ts';

/** The number of events of a page in the document; live events can double it. */
const PAGE_SIZE = 200;
/** A named event is looked for in this number of pages. */
const MAX_SEARCHED_PAGES = 60;
const REFRESH_INTERVAL_MS = 100;
/** A second later, the service has a checkpoint with all events. */
const SIZE_DELAY_MS = 1_500;

type Context = { api: Api; entities: Entities; store: Store<State> };

/** Reads the events of the log, newest first: a page, and live events. */
export class TimelineLoader {
  readonly #context: Context;
  readonly #live: LiveEvents;
  #loading = new AbortController();
  /** The queries of all pages up to the current one, and of the next page. */
  #pages: string[] = [];
  /** The position of the last event when the filters were set; later events arrive live. */
  #end = 0n;
  #counts: EventCounts | undefined;
  /** Live events that will be shown together. */
  #arrived: ShownEvent[] = [];
  #sizeTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(context: Context) {
    this.#context = context;
    this.#live = new LiveEvents(context.api);
  }

  get #state(): TimelineState {
    return this.#context.store.state.timeline;
  }

  #set(parts: Partial<TimelineState>): void {
    this.#context.store.set({ timeline: { ...this.#state, ...parts } });
  }

  /** Shows the newest events that match the filters, and follows the log. */
  async show(): Promise<void> {
    const { api, store } = this.#context;
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const { problem: _, ...shown } = this.#state;
    store.set({ timeline: { ...shown, status: 'loading' }, connection: { state: 'connecting' } });
    try {
      const { route, zone } = store.state;
      const query = queryOf(route, zone);
      const newest = `${new URLSearchParams([...query, ['order', 'descending'], ['limit', `${PAGE_SIZE}`]])}`;
      const page = await readPage(api, newest, signal);
      this.#pages = [newest];
      this.#end = page.end;
      this.#arrived = [];
      const { users, types, counts: former } = this.#state;
      const kept = { users, types, ...(former && { counts: former }) };
      store.set({ timeline: { ...NO_EVENTS, ...kept, status: 'shown', events: [] } });
      const counts = new EventCounts(query, filtersOf(route).length > 0);
      this.#counts = counts;
      void this.#showFirst(page, route.fields.position);
      void this.#count(counts, signal);
      void this.#showLogSize();
      await this.#live.follow({
        query,
        after: page.end > 0n ? `${page.end}` : undefined,
        signal,
        onEvent: (event) => this.#add({ ...event, isNew: true }),
        onState: (connection) => store.set({ connection }),
      });
    } catch (error) {
      if (signal.aborted) return;
      this.#set({ status: 'failed', problem: toProblem(error) });
      store.set({ connection: { state: 'off' } });
    }
  }

  /** Shows the first page and, if an event is named, the page with it. */
  async #showFirst(page: EventPage, named = ''): Promise<void> {
    const { signal } = this.#loading;
    await this.#read(0, page);
    if (!/^\d{1,20}$/.test(named)) return;
    const position = BigInt(named);
    const isShown = (): boolean => this.#state.events?.some((one) => one.position === position) ?? false;
    while (!isShown() && this.#state.hasOlder && this.#state.page < MAX_SEARCHED_PAGES && !signal.aborted)
      await this.turnTo(this.#state.page + 1);
    if (isShown()) this.toggle(position);
  }

  /** Shows a page, possibly from several responses: if few events match, a response has few or none. */
  async #read(index: number, first?: EventPage): Promise<void> {
    const { signal } = this.#loading;
    let next = this.#pages[index];
    this.#set({ isTurning: true });
    try {
      let page = first ?? (await readPage(this.#context.api, next as string, signal));
      const events: ShownEvent[] = [];
      for (; ; page = await readPage(this.#context.api, next, signal)) {
        events.push(...page.events.filter(({ position }) => position <= this.#end));
        next = page.next;
        if (next === undefined || events.length >= PAGE_SIZE) break;
      }
      if (next !== undefined) this.#pages[index + 1] = next;
      const live = index === 0 ? (this.#state.events ?? []) : [];
      this.#set({ events: [...live, ...events], page: index, hasOlder: next !== undefined, open: new Set() });
      this.#suggest(events);
    } catch (error) {
      if (!signal.aborted) this.#set({ problem: toProblem(error) });
    } finally {
      if (!signal.aborted) this.#set({ isTurning: false });
    }
  }

  async turnTo(index: number): Promise<void> {
    if (this.#state.isTurning) return;
    if (index === 0) return this.show();
    const { problem: _, ...shown } = this.#state;
    this.#context.store.set({ timeline: shown });
    await this.#read(index);
  }

  /** Opens or closes a row. */
  toggle(position: bigint): void {
    const open = new Set(this.#state.open);
    if (!open.delete(position)) open.add(position);
    this.#set({ open });
  }

  #add(event: ShownEvent): void {
    if (this.#arrived.push(event) === 1) setTimeout(() => this.#showArrived(), REFRESH_INTERVAL_MS);
  }

  #showArrived(): void {
    const arrived = this.#arrived.splice(0).reverse();
    if (arrived.length === 0) return; // the filters were changed meanwhile
    this.#counts?.add(arrived);
    this.#suggest(arrived);
    const { page, unseen, events = [] } = this.#state;
    const counted = this.#counts?.shown;
    if (page > 0) this.#set({ unseen: unseen + arrived.length, ...(counted && { counts: counted }) });
    else this.#set({ ...this.#trimmed([...arrived, ...events]), ...(counted && { counts: counted }) });
    this.#showLogSizeSoon();
  }

  /** Without the oldest rows if there are too many; the next page starts after the remaining rows. */
  #trimmed(events: ShownEvent[]): Partial<TimelineState> {
    if (events.length <= 2 * PAGE_SIZE) return { events };
    const [first = ''] = this.#pages;
    this.#pages = [first, `${first}&before=${events[PAGE_SIZE - 1]?.position}`];
    return { events: events.slice(0, PAGE_SIZE), hasOlder: true };
  }

  async #count(counts: EventCounts, signal: AbortSignal): Promise<void> {
    try {
      await counts.read(this.#context.api, signal);
      if (counts.shown) this.#set({ counts: counts.shown, isCounting: false });
    } catch (error) {
      if (!signal.aborted) this.#set({ problem: toProblem(error) });
    }
  }

  /** Reads the size of the log when it includes the arrived events; repeats if more arrive meanwhile. */
  #showLogSizeSoon(): void {
    const before = this.#counts?.shown?.matching;
    this.#sizeTimer ??= setTimeout(() => {
      this.#sizeTimer = undefined;
      if (this.#counts?.shown?.matching !== before) this.#showLogSizeSoon();
      void this.#showLogSize();
    }, SIZE_DELAY_MS);
  }

  async #showLogSize(): Promise<void> {
    const { signal } = this.#loading;
    const logSize = await readLogSize(this.#context.api, signal);
    if (!signal.aborted) this.#set({ logSize });
  }

  /** Suggests the users and types of events for the filters. */
  #suggest(events: readonly ShownEvent[]): void {
    this.#set(withSuggestions(this.#state, events, this.#context.entities));
  }

  interrupt(): void {
    this.#live.interrupt();
  }

  close(): void {
    this.#loading.abort();
  }
}
