import { readLogSize } from './api.ts';
import { moveByArrows, saveFile } from './dom.ts';
import { type Actions, eventRow } from './eventRow.ts';
import { type EventPage, readPage, type ShownEvent } from './events.ts';
import { showHistogram } from './histogram.ts';
import { followEvents, type LiveState } from './liveEvents.ts';
import { Screen } from './screen.ts';
import { count, counted } from './text.ts';

/** The number of events of a page in the document; live events can double it. */
const PAGE_SIZE = 200;
/** The maximum number of times in the bars, of the newest loaded events. */
const MAX_TIMES = 100_000;
const MAX_TYPES = 100;
const REFRESH_INTERVAL_MS = 100;
/** A second later, the service has a checkpoint with all events. */
const SIZE_DELAY_MS = 1_500;

/** The events of the log, newest first: a page, and live events. */
export class Timeline extends Screen {
  readonly #actions: Actions;
  readonly #rows = this.find('tbody');
  readonly #types = this.find<HTMLDataListElement>('datalist');
  /** The queries of all pages up to the current one, and of the next page. */
  #pages: string[] = [];
  #index = 0;
  /** The position of the last event when the filters were set; later events arrive live. */
  #end = -1n;
  #oldest: bigint | undefined;
  /** The number of searched events that match the filters; `#isComplete` if all events were searched. */
  #matching = 0;
  #isComplete = false;
  #logSize: number | undefined;
  /** In log order. */
  #times: number[] = [];
  /** Live events that will be shown together. */
  #arrived: ShownEvent[] = [];
  /** The number of events that arrived while an older page is shown. */
  #unseen = 0;
  #sizeTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(section: HTMLElement, actions: Omit<Actions, 'url'>) {
    super(section, actions);
    this.#actions = { ...actions, url: (fields) => this.url(fields) };
    this.find('.base').textContent = new URL('.', location.href).href;
    moveByArrows(this.find('.bars'), 'button', ['ArrowLeft', 'ArrowRight']);
    moveByArrows(this.#rows, '.toggle', ['ArrowUp', 'ArrowDown']);
    this.find('form').onreset = () => this.go({});
    this.find('.clear').onclick = () => this.go({});
    this.find('.newest').onclick = () => this.show();
    this.find('.newer').onclick = () => (this.#index === 1 ? this.show() : this.#showPage(this.#index - 1));
    this.find('.older').onclick = () => this.#showPage(this.#index + 1);
    this.find('.download').onclick = () => this.#download();
  }

  /** Shows the newest events that match the filters, and follows the log. */
  protected async show(): Promise<void> {
    const { api } = this;
    const signal = this.load();
    this.#showState('Connecting');
    try {
      const query = this.query();
      // The filters may exclude the last event of the log.
      const last = await readPage(api, 'order=descending&limit=1', signal);
      const end = last.events[0]?.position;
      const newest = `${new URLSearchParams([...query, ['order', 'descending'], ['limit', `${PAGE_SIZE}`]])}`;
      const page = await readPage(api, newest, signal);
      this.#clear();
      this.#end = end ?? -1n;
      this.#pages = [newest];
      void this.#showPage(0, page);
      void this.#showLogSize();
      await followEvents(api, {
        query,
        after: end?.toString(),
        signal,
        onEvent: (event) => this.#add(event),
        onState: (state, problem) => this.#showState(state, problem),
      });
    } catch (error) {
      if (signal.aborted) return;
      this.showError(error);
      this.#showState('Not live');
    }
  }

  /** Shows a page, possibly from several responses: if few events match, a response has few or none. */
  async #showPage(index: number, first?: EventPage): Promise<void> {
    const { signal } = this.loading;
    for (const name of ['newest', 'newer', 'older']) this.#enable(name, false);
    let next = this.#pages[index];
    try {
      let page = first ?? (await readPage(this.api, next as string, signal));
      if (index > 0) this.#rows.replaceChildren();
      this.#index = index;
      for (let found = 0; ; page = await readPage(this.api, next, signal)) {
        const events = page.events.filter(({ position }) => position <= this.#end);
        this.#rows.append(...events.map((event) => eventRow(event, this.#actions)));
        this.#openNamedRow();
        const added = events.filter(({ position }) => this.#oldest === undefined || position < this.#oldest);
        this.#oldest = added.at(-1)?.position ?? this.#oldest;
        this.#chart(added);
        found += events.length;
        next = page.next;
        this.#showCount();
        if (next === undefined || found >= PAGE_SIZE) break;
      }
      if (next === undefined) this.#isComplete = true;
      else this.#pages[index + 1] = next;
    } catch (error) {
      if (!signal.aborted) this.showError(error);
    } finally {
      if (!signal.aborted) this.#showPaging();
    }
  }

  #add(event: ShownEvent): void {
    if (this.#arrived.push(event) === 1) setTimeout(() => this.#showArrived(), REFRESH_INTERVAL_MS);
  }

  #showArrived(): void {
    const arrived = this.#arrived.splice(0);
    if (arrived.length === 0) return; // the filters were changed meanwhile
    this.#chart([], arrived);
    if (this.#index === 0) {
      const rows = arrived.slice(-PAGE_SIZE).map((event) => eventRow(event, this.#actions));
      for (const row of rows) row.classList.add('new');
      this.#rows.prepend(...rows.reverse());
      this.#trim();
    } else {
      this.#unseen += arrived.length;
    }
    this.#showPaging();
    this.#showLogSizeSoon();
  }

  /** Shows the size of the log when it includes the arrived events; repeats if more arrive in the meantime. */
  #showLogSizeSoon(): void {
    const matching = this.#matching;
    this.#sizeTimer ??= setTimeout(() => {
      this.#sizeTimer = undefined;
      if (this.#matching > matching) this.#showLogSizeSoon();
      void this.#showLogSize();
    }, SIZE_DELAY_MS);
  }

  async #showLogSize(): Promise<void> {
    const { signal } = this.loading;
    const size = await readLogSize(this.api, signal);
    if (signal.aborted) return;
    this.#logSize = size;
    this.#showCount();
  }

  /** Removes the oldest rows if there are too many; the next page starts after the remaining rows. */
  #trim(): void {
    const all = this.#rows.querySelectorAll<HTMLElement>('.event');
    if (all.length <= 2 * PAGE_SIZE) return;
    const rest = all[PAGE_SIZE] as HTMLElement;
    while (rest.nextSibling) rest.nextSibling.remove();
    rest.remove();
    const [first = ''] = this.#pages;
    this.#pages = [first, `${first}&before=${all[PAGE_SIZE - 1]?.dataset.position}`];
  }

  /** Adds events to the bars: earlier events, newest first, and later events in log order. */
  #chart(earlier: readonly ShownEvent[], later: readonly ShownEvent[] = []): void {
    const events = [...earlier.toReversed(), ...later];
    const times = events.map(({ time }) => time).filter(Number.isFinite);
    this.#matching += events.length;
    this.#times = (later.length > 0 ? this.#times.concat(times) : times.concat(this.#times)).slice(
      -MAX_TIMES,
    );
    const known = new Set([...this.#types.options].map(({ value }) => value));
    const added = [...new Set(events.map(({ type }) => type)).difference(known)];
    this.#types.append(...added.slice(0, MAX_TYPES - known.size).map((type) => new Option('', type)));
  }

  /** Opens the row that the URL names. */
  #openNamedRow(): void {
    const position = new URLSearchParams(location.hash.split('?')[1]).get('position') ?? '';
    const row = this.#rows.querySelector<HTMLElement>(`[data-position="${CSS.escape(position)}"]`);
    row?.querySelector<HTMLElement>('[aria-expanded="false"]')?.click();
  }

  #showPaging(): void {
    this.#showCount();
    this.#enable('newest', this.#index > 0);
    this.find('.newest').textContent = this.#unseen > 0 ? `Newest (${count(this.#unseen)} new)` : 'Newest';
    this.#enable('newer', this.#index > 0);
    this.#enable('older', this.#pages[this.#index + 1] !== undefined);
  }

  #showCount(): void {
    const page = this.#index === 0 ? 'newest first' : `page ${count(this.#index + 1)}`;
    const soFar = this.#isComplete ? '' : ' so far';
    const size = this.#logSize === undefined ? '' : ` of ${count(Math.max(this.#logSize, this.#matching))}`;
    const hasNone = this.#matching === 0 && this.#isComplete;
    const isFiltered = Object.values(this.given).join('') !== '';
    this.find('.count').textContent = `Matching events${soFar}: ${count(this.#matching)}${size}, ${page}`;
    this.find('.matches').hidden = this.#matching === 0;
    this.find('.empty').hidden = !hasNone || !isFiltered;
    this.find('.empty-log').hidden = !hasNone || isFiltered;
    this.#showBars();
  }

  #showBars(): void {
    const shown = this.#times.length;
    const scope = this.#isComplete && shown === this.#matching ? 'All' : 'The newest';
    const timed = shown < this.#matching ? ' with a time' : '';
    this.find('figcaption').textContent = `${scope} ${counted(shown, 'matching event')}${timed}, over time`;
    showHistogram(this.find('.chart'), this.#times, this.zone, (range) =>
      this.go({ ...this.given, ...range }),
    );
  }

  #showState(state: LiveState | 'Connecting' | 'Not live', problem = ''): void {
    const shown = this.find('.live');
    shown.dataset.state = state;
    shown.textContent = state;
    shown.title = problem;
  }

  #clear(): void {
    this.#arrived = [];
    this.#times = [];
    this.#unseen = 0;
    this.#index = 0;
    this.#pages = [];
    this.#matching = 0;
    this.#isComplete = false;
    this.#oldest = undefined;
    this.#rows.replaceChildren();
    this.showResults();
  }

  async #download(): Promise<void> {
    this.#enable('download', false);
    try {
      saveFile('events.ndjson', await (await this.api.get(`events?${this.query()}`)).blob());
    } catch (error) {
      this.showError(error);
    } finally {
      this.#enable('download', true);
    }
  }

  #enable(button: string, isEnabled: boolean): void {
    this.find<HTMLButtonElement>(`.${button}`).disabled = !isEnabled;
  }
}
