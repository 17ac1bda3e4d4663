import { type Api, messageOf } from './api.ts';
import { fieldValue, find, make, moveByArrows, saveFile, setField } from './dom.ts';
import { eventRow } from './eventRow.ts';
import { download, readPage, type ShownEvent } from './events.ts';
import { Histogram, type TimeRange } from './histogram.ts';
import { followEvents } from './liveEvents.ts';
import { count, counted, utc } from './text.ts';

/** Events of a page, which are in the document; while they arrive, up to twice as many. */
const PAGE_SIZE = 200;
/** Times in the bars; of more events, the first ones that were loaded are not shown in them. */
const MAX_TIMES = 100_000;
/** How often events that arrive are shown, in milliseconds. */
const REFRESH_INTERVAL_MS = 100;

type Context = { api: Api; onMoment: (user: string, time: number) => void };

/** The events of the log, newest first: a page of them, and those that arrive. */
export class Timeline {
  readonly #section: HTMLElement;
  readonly #context: Context;
  readonly #form: HTMLFormElement;
  readonly #rows: HTMLElement;
  readonly #histogram: Histogram;
  /** Ends what the last filters have started. */
  #loading = new AbortController();
  /** The queries of the pages up to this one, and of the next one. */
  #pages: string[] = [];
  #index = 0;
  #newest = -1n;
  #times: number[] = [];
  #arrived: ShownEvent[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Events that arrived while an older page is shown. */
  #unseen = 0;

  constructor(section: HTMLElement, context: Context) {
    this.#section = section;
    this.#context = context;
    this.#form = find<HTMLFormElement>(section, 'form');
    this.#rows = find(section, 'tbody');
    this.#histogram = new Histogram(find(section, '.chart'), (range) => this.#zoom(range));
    moveByArrows(this.#rows, '.toggle', ['ArrowUp', 'ArrowDown']);
    const { signal } = this.#closed;
    this.#form.addEventListener('submit', (event) => this.#submitted(event), { signal });
    this.#form.addEventListener('reset', () => setTimeout(() => this.load()), { signal });
    for (const [name, show] of Object.entries({
      newest: () => this.load(),
      newer: () => (this.#index === 1 ? this.load() : this.#show(this.#index - 1)),
      older: () => this.#show(this.#index + 1),
    }))
      this.#button(name).addEventListener('click', show, { signal });
    find(section, '.download').addEventListener('click', () => this.#download(), { signal });
  }

  readonly #closed = new AbortController();

  /** Ends all that it has started. */
  close(): void {
    this.#closed.abort();
    this.#loading.abort();
    this.#clear();
  }

  /** Shows the newest events that match the filters, and follows the log. */
  async load(): Promise<void> {
    const { api } = this.#context;
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    this.#clear();
    this.#showState(undefined);
    try {
      const query = this.#filters();
      // Live events are those after the last one of the log, which the filters may leave out.
      const last = await readPage(api, new URLSearchParams({ order: 'descending', limit: '1' }), signal);
      const after = last.events[0]?.position;
      const first = new URLSearchParams([...query, ['order', 'descending'], ['limit', String(PAGE_SIZE)]]);
      this.#pages = [String(first)];
      if (!(await this.#show(0))) return;
      this.#newest = after === undefined || after < this.#newest ? this.#newest : after;
      await followEvents(api, {
        query,
        after: after?.toString(),
        signal,
        onEvent: (event) => this.#add(event),
        onState: (isConnected, problem) => this.#showState(isConnected, problem),
      });
    } catch (error) {
      if (!signal.aborted) this.#problem(messageOf(error));
    }
  }

  /** Shows the events of a user. */
  showUser(user: string): void {
    this.#form.reset();
    setField(this.#form, 'user', user);
    this.#form.requestSubmit();
  }

  #submitted(event: Event): void {
    event.preventDefault();
    void this.load();
  }

  #zoom({ from, to }: TimeRange): void {
    setField(this.#form, 'since', utc(from));
    setField(this.#form, 'until', utc(to));
    this.#form.requestSubmit();
  }

  /** The filters as the API has them. @throws RangeError */
  #filters(): URLSearchParams {
    const query = new URLSearchParams();
    for (const name of ['user', 'id', 'type']) {
      const value = fieldValue(this.#form, name);
      if (value !== '') query.set(name, value);
    }
    const since = parseTime(fieldValue(this.#form, 'since'), 'Since', '00:00');
    const until = parseTime(fieldValue(this.#form, 'until'), 'Until', '23:59:59.999');
    if (since !== undefined) query.set('since', since);
    if (until !== undefined) query.set('until', until);
    return query;
  }

  /** Shows a page; false if that failed, or other filters were set meanwhile. */
  async #show(index: number): Promise<boolean> {
    const { signal } = this.#loading;
    const isNew = index === 0 || this.#pages[index + 1] === undefined;
    for (const name of ['newest', 'newer', 'older']) this.#button(name).disabled = true;
    try {
      const query = new URLSearchParams(this.#pages[index]);
      const { events, next } = await readPage(this.#context.api, query, signal);
      if (signal.aborted) return false;
      this.#index = index;
      if (next !== undefined) this.#pages[index + 1] = next;
      if (index === 0) this.#newest = events[0]?.position ?? -1n;
      this.#rows.replaceChildren(...events.map((event) => this.#row(event)));
      if (isNew) this.#chart(events);
      this.#problem(events.length === 0 ? 'No events match.' : '');
      return true;
    } catch (error) {
      if (!signal.aborted) this.#problem(messageOf(error));
      return false;
    } finally {
      if (!signal.aborted) this.#showPaging();
    }
  }

  /** Shows an event that has arrived, with others that arrive at that time. */
  #add(event: ShownEvent): void {
    if (event.position <= this.#newest) return;
    this.#newest = event.position;
    this.#arrived.push(event);
    this.#timer ??= setTimeout(() => this.#showArrived(), REFRESH_INTERVAL_MS);
  }

  #showArrived(): void {
    const arrived = this.#arrived.splice(0);
    this.#timer = undefined;
    this.#chart(arrived);
    if (this.#index === 0) {
      const rows = arrived.slice(-PAGE_SIZE).map((event) => this.#row(event));
      for (const row of rows) row.classList.add('new');
      this.#rows.prepend(...rows.reverse());
      const all = this.#rows.querySelectorAll('.event');
      const isTooLong = all.length > 2 * PAGE_SIZE;
      if (isTooLong)
        while (this.#rows.lastChild && this.#rows.lastChild !== all[PAGE_SIZE - 1])
          this.#rows.lastChild.remove();
      this.#problem('');
      if (isTooLong) this.#pages.length = 1; // the next page would not follow any more
    } else {
      this.#unseen += arrived.length;
    }
    this.#showPaging();
  }

  #row(event: ShownEvent): HTMLTableRowElement {
    const { api, onMoment } = this.#context;
    return eventRow(event, { api, onMoment, onUser: (user) => this.showUser(user) });
  }

  #chart(events: readonly ShownEvent[]): void {
    this.#times.push(...events.map(({ time }) => time).filter(Number.isFinite));
    this.#times.splice(0, this.#times.length - MAX_TIMES);
    this.#histogram.show(this.#times);
    find(this.#section, 'figcaption').textContent =
      `${counted(this.#times.length, 'event')} loaded, over time`;
    const types = find(this.#section, 'datalist');
    const known = new Set([...types.children].map((option) => (option as HTMLOptionElement).value));
    for (const type of new Set(events.map((event) => event.type))) {
      if (known.has(type) || known.size >= 100) continue;
      const option = make('option');
      option.value = type;
      types.append(option);
    }
  }

  #showPaging(): void {
    const shown = this.#rows.querySelectorAll('.event').length;
    const page = this.#index === 0 ? 'newest first' : `page ${count(this.#index + 1)}`;
    find(this.#section, '.count').textContent = `${counted(shown, 'event')}, ${page}`;
    this.#button('newest').disabled = this.#index === 0;
    this.#button('newest').textContent = this.#unseen > 0 ? `Newest (${count(this.#unseen)} new)` : 'Newest';
    this.#button('newer').disabled = this.#index === 0;
    this.#button('older').disabled = this.#pages[this.#index + 1] === undefined;
  }

  #showState(isConnected: boolean | undefined, problem = ''): void {
    const state = find(this.#section, '.live');
    state.dataset.state = isConnected ? 'on' : 'off';
    state.textContent = isConnected ? 'Live' : isConnected === undefined ? 'Connecting' : 'Reconnecting';
    state.title = problem;
  }

  #problem(text: string): void {
    find(this.#section, '.problem').textContent = text;
  }

  #clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#arrived = [];
    this.#times = [];
    this.#unseen = 0;
    this.#index = 0;
    this.#rows.replaceChildren();
    this.#histogram.show([]);
    this.#problem('');
  }

  async #download(): Promise<void> {
    const button = find<HTMLButtonElement>(this.#section, '.download');
    button.disabled = true;
    try {
      saveFile('events.ndjson', await download(this.#context.api, this.#filters()));
    } catch (error) {
      this.#problem(messageOf(error));
    } finally {
      button.disabled = false;
    }
  }

  #button(page: string): HTMLButtonElement {
    return find<HTMLButtonElement>(this.#section, `[data-page="${page}"]`);
  }
}

/** A time in RFC 3339, of a date, with a time or else this one, in UTC or else with an offset. @throws RangeError */
function parseTime(text: string, name: string, timeOfDay: string): string | undefined {
  if (text === '') return undefined;
  const [, date, time = timeOfDay, offset = 'Z'] =
    /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
  const at = new Date(`${date}T${time}${offset}`);
  if (Number.isNaN(at.getTime())) throw new RangeError(`${name} must be a time such as 2026-03-01 12:00.`);
  return at.toISOString();
}
