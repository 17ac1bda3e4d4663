import { Bars, DAY_MS, lengthName } from '../histogram/bars.ts';
import { readLogSize } from './api.ts';
import { make, moveByArrows, saveFile, suggest } from './dom.ts';
import { type Actions, eventRow } from './eventRow.ts';
import { type EventPage, readHistogram, readPage, replayFile, type ShownEvent } from './events.ts';
import { showHistogram } from './histogram.ts';
import { followEvents, type LiveState } from './liveEvents.ts';
import { Screen } from './screen.ts';
import { count, counted } from './text.ts';
import { DATE } from './zone.ts';

/** The number of events of a page in the document; live events can double it. */
const PAGE_SIZE = 200;
/** A histogram of the service counts 10 000 events at most. */
const MAX_HISTOGRAMS = 5;
const REFRESH_INTERVAL_MS = 100;
/** A second later, the service has a checkpoint with all events. */
const SIZE_DELAY_MS = 1_500;

/** The events of the log, newest first: a page, and live events. */
export class Timeline extends Screen {
  readonly #actions: Actions;
  readonly #rows = this.find('tbody');
  /** The queries of all pages up to the current one, and of the next page. */
  #pages: string[] = [];
  #index = 0;
  /** Whether no event precedes the rows. */
  #isEnd = false;
  /** The position of the last event when the filters were set; later events arrive live. */
  #end = -1n;
  /** The counts of matching events over time, and their number; `#isComplete` if all matching events were counted. */
  #bars = new Bars();
  #matching = 0;
  #isComplete = false;
  /** The position up to which the service has counted; later events are counted when they arrive. */
  #countedTo: bigint | undefined;
  #uncounted: ShownEvent[] = [];
  #logSize: number | undefined;
  /** Live events that will be shown together. */
  #arrived: ShownEvent[] = [];
  /** The number of events that arrived while an older page is shown. */
  #unseen = 0;
  #sizeTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(section: HTMLElement, actions: Omit<Actions, 'url'>) {
    super(section, actions);
    this.#actions = { ...actions, url: (fields) => this.url(fields) };
    this.find('.base').textContent = new URL('.', location.href).href;
    moveByArrows(this.#rows, '.toggle');
    this.find('form').onreset = () => this.go({});
    this.find('.clear').onclick = () => this.go({});
    this.#onClick('newest', () => this.show());
    this.#onClick('newer', () => (this.#index === 1 ? this.show() : this.#turnTo(this.#index - 1)));
    this.#onClick('older', () => this.#turnTo(this.#index + 1));
    this.#onClick('download', () => this.#download());
    const showFilters = this.find('.show-filters'); // on narrow screens
    showFilters.onclick = () => {
      const isShown = this.find('form').classList.toggle('shown');
      showFilters.ariaExpanded = String(isShown);
    };
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
      void this.#showHistogram();
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
        this.#suggest(events);
        found += events.length;
        next = page.next;
        if (next === undefined || found >= PAGE_SIZE) break;
      }
      this.#isEnd = next === undefined;
      if (next !== undefined) this.#pages[index + 1] = next;
    } catch (error) {
      if (!signal.aborted) this.showError(error);
    } finally {
      if (!signal.aborted) this.#showPaging();
    }
  }

  async #turnTo(index: number): Promise<void> {
    this.focused = this.find(index > this.#index ? '.older' : '.newer');
    await this.#showPage(index);
    const results = this.find('.results');
    if (results.getBoundingClientRect().top < 0) results.scrollIntoView();
  }

  #add(event: ShownEvent): void {
    if (this.#arrived.push(event) === 1) setTimeout(() => this.#showArrived(), REFRESH_INTERVAL_MS);
  }

  #showArrived(): void {
    const arrived = this.#arrived.splice(0);
    if (arrived.length === 0) return; // the filters were changed meanwhile
    this.#uncounted.push(...arrived);
    this.#countArrived();
    this.#suggest(arrived);
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

  /** Shows the size of the log when it includes the arrived events; repeats if the matching events change meanwhile. */
  #showLogSizeSoon(): void {
    const matching = this.#matching;
    this.#sizeTimer ??= setTimeout(() => {
      this.#sizeTimer = undefined;
      if (this.#matching !== matching) this.#showLogSizeSoon();
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

  /** Shows the counts of all matching events, or of the newest ones. */
  async #showHistogram(): Promise<void> {
    const { signal } = this.loading;
    const bars = new Bars();
    let matching = 0;
    let before: string | undefined;
    let countedTo: bigint | undefined;
    try {
      for (let i = 0; i < MAX_HISTOGRAMS && (i === 0 || before !== undefined); i++) {
        const query = this.query();
        if (before !== undefined) query.set('before', before);
        const counts = await readHistogram(this.api, query, signal);
        bars.merge(counts);
        matching += counts.events;
        countedTo ??= BigInt(counts.end);
        before = counts.before;
      }
    } catch (error) {
      if (!signal.aborted) this.showError(error);
      return;
    }
    this.#bars = bars;
    this.#matching = matching;
    this.#isComplete = before === undefined;
    this.#countedTo = countedTo;
    this.#countArrived();
    this.#showCount();
  }

  /** Counts events that have arrived since the service has counted. */
  #countArrived(): void {
    const countedTo = this.#countedTo;
    if (countedTo === undefined) return;
    const later = this.#uncounted.splice(0).filter(({ position }) => position > countedTo);
    this.#matching += later.length;
    for (const { time } of later) if (Number.isFinite(time)) this.#bars.add(time);
  }

  /** Suggests the users and types of events for the filters. */
  #suggest(events: readonly ShownEvent[]): void {
    const { streams } = this.#actions.entityType;
    const suggestions = {
      users: events.map(({ subject }) => streams.parse(subject)?.user ?? ''),
      types: events.map(({ type }) => type),
    };
    for (const [id, values] of Object.entries(suggestions)) suggest(this.find(`#${id}`), values);
  }

  /** Opens the row that the URL names. */
  #openNamedRow(): void {
    const position = new URLSearchParams(location.hash.split('?')[1]).get('position') ?? '';
    const row = this.#rows.querySelector<HTMLElement>(`[data-position="${CSS.escape(position)}"]`);
    row?.querySelector<HTMLElement>('[aria-expanded="false"]')?.click();
  }

  #showPaging(): void {
    this.#enable('newest', this.#index > 0);
    this.find('.newest').textContent = this.#unseen > 0 ? `Newest (${count(this.#unseen)} new)` : 'Newest';
    this.#enable('newer', this.#index > 0);
    this.#enable('older', this.#pages[this.#index + 1] !== undefined);
    this.#showCount();
  }

  #showCount(): void {
    const isFiltered = Object.values(this.given).join('') !== '';
    const hasNone = this.#rows.childElementCount === 0 && this.#index === 0 && this.#isEnd;
    this.find('.count').textContent = this.#countText(isFiltered);
    this.find('.matches').hidden = this.#rows.childElementCount === 0;
    this.find('.empty').hidden = !hasNone || !isFiltered;
    const isEmptyLog = hasNone && !isFiltered;
    this.find('.empty-log').hidden = !isEmptyLog;
    this.find('form').hidden = this.find('.show-filters').hidden = isEmptyLog;
    for (const toolbar of this.section.querySelectorAll<HTMLElement>('.toolbar')) toolbar.hidden = hasNone;
    this.find('.question').textContent = this.question();
    const counts = this.#bars.counts();
    const { first = Number.NaN, last = Number.NaN, barLength } = counts;
    const scope = this.#isComplete ? '' : `the newest ${count(this.#matching)}, `;
    const ends = this.zone.formatEnds(first, last);
    const [from, to] = barLength < DAY_MS ? ends : ends.map((end) => end.slice(0, DATE));
    const title = `${isFiltered ? 'Matching events' : 'Events'} per ${lengthName(barLength)}: ${scope}`;
    this.find('figcaption').replaceChildren(title, make('span', '', `${from} to ${to}`));
    showHistogram(this.find('.chart'), counts, this.zone, (range) => this.go({ ...this.given, ...range }));
    if (this.#countedTo !== undefined) this.refocus();
  }

  #countText(isFiltered: boolean): string {
    if (this.#countedTo === undefined) return 'Counting…';
    const page = this.#index === 0 ? 'newest first' : `page ${count(this.#index + 1)}`;
    const atLeast = this.#isComplete ? '' : 'at least ';
    const size = this.#logSize === undefined ? undefined : Math.max(this.#logSize, this.#matching);
    const text = isFiltered
      ? `${atLeast}${count(this.#matching)}${size === undefined ? '' : ` of ${count(size)}`} events match`
      : this.#isComplete || size === undefined
        ? `${atLeast}${counted(this.#matching, 'event')}`
        : counted(size, 'event');
    return `${text.replace(/^a/, 'A')}, ${page}`;
  }

  #showState(state: LiveState | 'Connecting' | 'Not live', problem = ''): void {
    const shown = this.find('.live');
    shown.dataset.state = state;
    shown.textContent = problem ? `${state}: ${problem}` : state;
  }

  #clear(): void {
    this.#arrived = [];
    this.#bars = new Bars();
    this.#countedTo = undefined;
    this.#uncounted = [];
    this.#unseen = 0;
    this.#index = 0;
    this.#pages = [];
    this.#matching = 0;
    this.#isComplete = this.#isEnd = false;
    this.#rows.replaceChildren();
    this.showResults();
  }

  async #download(): Promise<void> {
    this.focused = document.activeElement as HTMLElement;
    this.#enable('download', false);
    try {
      saveFile('events.ndjson', await replayFile(this.api, this.query()));
    } catch (error) {
      this.showError(error);
    } finally {
      this.#enable('download', true);
      this.refocus();
    }
  }

  /** The buttons of a name: the pager is above and below the rows. */
  #buttons(name: string): NodeListOf<HTMLButtonElement> {
    return this.section.querySelectorAll(`.${name}`);
  }

  #onClick(name: string, onClick: () => void): void {
    for (const button of this.#buttons(name)) button.onclick = onClick;
  }

  #enable(name: string, isEnabled: boolean): void {
    for (const button of this.#buttons(name)) button.disabled = !isEnabled;
  }
}
