import { type Api, messageOf } from './api.ts';
import type { TimeRange } from './bars.ts';
import { fieldValue, find, make, moveByArrows, saveFile, setField } from './dom.ts';
import { eventRow } from './eventRow.ts';
import { download, readPage, type ShownEvent } from './events.ts';
import { Histogram } from './histogram.ts';
import { followEvents, type LiveState } from './liveEvents.ts';
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
  /** The position of the last event of the log when the filters were set; later ones arrive. */
  #end = -1n;
  /** The position of the oldest event in the bars. */
  #oldest: bigint | undefined;
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
    this.#showState('Connecting');
    try {
      const query = this.#filters();
      // The filters may leave out the last event of the log.
      const last = await readPage(api, new URLSearchParams({ order: 'descending', limit: '1' }), signal);
      const end = last.events[0]?.position;
      this.#end = end ?? -1n;
      this.#pages = [`${pageOf(query)}`];
      void this.#show(0);
      await followEvents(api, {
        query,
        after: end?.toString(),
        signal,
        onEvent: (event) => this.#add(event),
        onState: (state, problem) => this.#showState(state, problem),
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

  /** Shows a page, which may take several responses: where few events match, each has few or none. */
  async #show(index: number): Promise<void> {
    const { signal } = this.#loading;
    for (const name of ['newest', 'newer', 'older']) this.#button(name).disabled = true;
    if (index > 0) this.#rows.replaceChildren();
    this.#index = index;
    let next = this.#pages[index];
    try {
      for (let found = 0; next !== undefined && found < PAGE_SIZE; ) {
        const page = await readPage(this.#context.api, new URLSearchParams(next), signal);
        const events = page.events.filter(({ position }) => position <= this.#end);
        this.#rows.append(...events.map((event) => this.#row(event)));
        const older = events.filter(({ position }) => this.#oldest === undefined || position < this.#oldest);
        this.#chart(older);
        this.#oldest = older.at(-1)?.position ?? this.#oldest;
        found += events.length;
        next = page.next;
        this.#count(next === undefined ? '' : ', searching further');
      }
      if (next !== undefined) this.#pages[index + 1] = next;
    } catch (error) {
      if (!signal.aborted) this.#problem(messageOf(error));
    } finally {
      if (!signal.aborted) this.#showPaging();
    }
  }

  /** Shows an event that has arrived, with others that arrive at that time. */
  #add(event: ShownEvent): void {
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
      this.#trim();
    } else {
      this.#unseen += arrived.length;
    }
    this.#showPaging();
  }

  /** Removes the oldest rows if there are too many; the next page begins after those that stay. */
  #trim(): void {
    const all = this.#rows.querySelectorAll<HTMLElement>('.event');
    if (all.length <= 2 * PAGE_SIZE) return;
    for (const row of [...all].slice(PAGE_SIZE)) {
      if (row.nextElementSibling?.matches('.detail')) row.nextElementSibling.remove();
      row.remove();
    }
    const before = all[PAGE_SIZE - 1]?.dataset.position ?? '';
    const first = new URLSearchParams(this.#pages[0]);
    this.#pages = [`${first}`, `${new URLSearchParams([...first, ['before', before]])}`];
  }

  #row(event: ShownEvent): HTMLTableRowElement {
    const { api, onMoment } = this.#context;
    const row = eventRow(event, { api, onMoment, onUser: (user) => this.showUser(user) });
    row.dataset.position = String(event.position);
    return row;
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
    this.#count('');
    this.#button('newest').disabled = this.#index === 0;
    this.#button('newest').textContent = this.#unseen > 0 ? `Newest (${count(this.#unseen)} new)` : 'Newest';
    this.#button('newer').disabled = this.#index === 0;
    this.#button('older').disabled = this.#pages[this.#index + 1] === undefined;
  }

  #count(more: string): void {
    const shown = this.#rows.querySelectorAll('.event').length;
    const page = this.#index === 0 ? 'newest first' : `page ${count(this.#index + 1)}`;
    const isNone = shown === 0 && more === '';
    find(this.#section, '.count').textContent = isNone
      ? 'No events'
      : `${counted(shown, 'event')}, ${page}${more}`;
  }

  #showState(state: LiveState | 'Connecting', problem = ''): void {
    const shown = find(this.#section, '.live');
    shown.dataset.state = state;
    shown.textContent = state;
    shown.title = problem;
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
    this.#oldest = undefined;
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

/** The query of the first page of these filters. */
function pageOf(filters: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...filters, ['order', 'descending'], ['limit', String(PAGE_SIZE)]]);
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
