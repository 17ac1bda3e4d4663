import { EVENTS_ERASED } from '@event-sourced/event-log/erasure';
import type { Entity, EntityType } from '../entityType.ts';
import { cellText, chip, link, make, suggest } from './dom.ts';
import { countErased, parseEvent, readPage, replayLines } from './events.ts';
import { type Context, Screen } from './screen.ts';
import { type Change, type State, statesAt } from './states.ts';
import { counted, parseTime } from './text.ts';

const PAGE_SIZE = 500;
/** The page offers the users of this number of newest events. */
const MAX_EVENTS = 1_000;
/** The users that are listed; the field suggests more. */
const MAX_USERS = 10;

export class PointInTime extends Screen {
  readonly #entityType: EntityType;
  /** Milliseconds since 1970, from just before the first event to the last one. */
  readonly #slider = this.find<HTMLInputElement>('[type="range"]');
  /** The events that change an entity, in log order. */
  #changes: Change[] = [];
  #times: number[] = [];
  /** The point in time, in milliseconds since 1970. */
  #at = Number.NaN;
  #rows = PAGE_SIZE;

  constructor(section: HTMLElement, context: Context) {
    super(section, context);
    this.#entityType = context.entityType;
    this.#slider.oninput = () => this.#slide(Number(this.#slider.value));
    this.#slider.onkeydown = (event) => this.#step(event);
    this.#slider.onchange = () => this.replaceUrl({ ...this.given, at: new Date(this.#at).toISOString() });
    this.find('.more').onclick = () => this.#show(this.#rows + PAGE_SIZE);
  }

  /** Shows the entities of a user at a time, by default after the last event; without a user, lists users to choose. */
  protected async show(): Promise<void> {
    const signal = this.load();
    try {
      const query = this.query();
      const user = query.get('user');
      const at = query.get('at');
      const erased = this.#showErased(signal);
      if (user === null) return void (await Promise.all([this.#showUsers(signal), erased]));
      erased.catch(() => {}); // awaited last: it reads the whole log
      this.#changes = await this.#read(user, signal);
      const times = new Set(this.#changes.map(({ time }) => time).filter(Number.isFinite));
      this.#times = [...times].sort((a, b) => a - b);
      const [first = 0] = this.#times;
      this.#at = at === null ? (this.#times.at(-1) ?? 0) : parseTime(at);
      this.#slider.min = String(first - 1);
      this.#slider.max = String(this.#times.at(-1) ?? first);
      this.#slider.value = String(this.#lastEventAt(this.#at));
      this.find('.question bdi').replaceWith(cellText(user));
      this.#showMarks();
      this.find('.users').hidden = true;
      this.find('.state').hidden = false;
      this.showResults();
      this.#show();
      this.refocus();
      await erased;
    } catch (error) {
      if (signal.aborted) return;
      this.find('.results').hidden = true; // they belong to another question
      this.showError(error);
    }
  }

  async #showUsers(signal: AbortSignal): Promise<void> {
    const { events } = await readPage(this.api, `order=descending&limit=${MAX_EVENTS}`, signal);
    const counts = new Map<string, number>();
    for (const { subject } of events) {
      const user = this.#entityType.streams.parse(subject)?.user ?? '';
      if (user !== '') counts.set(user, (counts.get(user) ?? 0) + 1);
    }
    const users = [...counts].sort(([, a], [, b]) => b - a);
    suggest(this.find('datalist'), [...counts.keys()]);
    const entries = users
      .slice(0, MAX_USERS)
      .map(([user, number]) =>
        make('li', '', link(cellText(user), this.url({ ...this.given, user })), counted(number, 'event')),
      );
    const more = users.length - entries.length;
    const others = more > 0 ? `, and ${counted(more, 'other user')} that the field suggests` : '';
    const text = `The users with most of the newest ${counted(events.length, 'event')}${others}:`;
    const isEmpty = events.length === 0;
    const create = link(`Create the first ${this.#entityType.streams.noun}`, '#timeline');
    this.find('.users > p').replaceChildren(...(isEmpty ? ['The log is empty. ', create] : [text]));
    this.find('.users > ul').replaceChildren(...entries);
    this.find('form').hidden = this.find('.users > ul').hidden = isEmpty;
    if (isEmpty) this.expire();
    this.find('.users').hidden = false;
    this.find('.state').hidden = true;
    this.showResults();
    this.refocus();
  }

  /** Says how many events of the log are erased, of any user: the log does not name them. */
  async #showErased(signal: AbortSignal): Promise<void> {
    let erased = 0;
    for await (const line of replayLines(this.api, { type: EVENTS_ERASED }, signal))
      erased += countErased(parseEvent(line));
    const { noun } = this.#entityType.streams;
    const text = `${counted(erased, 'event')} of the log were erased; their ${noun}s are not shown. `;
    this.find('.erased').replaceChildren(text, link('The records', `#timeline?type=${EVENTS_ERASED}`));
    this.find('.erased').hidden = erased === 0;
  }

  async #read(user: string, signal: AbortSignal): Promise<Change[]> {
    const { streams, evolve } = this.#entityType;
    const changes: Change[] = [];
    const entities = new Map<string, Entity | undefined>();
    for await (const line of replayLines(this.api, { user }, signal)) {
      const { type, revision, data, time, subject } = parseEvent(line);
      const stream = streams.parse(subject);
      if (stream?.user !== user) continue;
      const change = { id: stream.id, type, revision, data, time };
      const before = entities.get(change.id);
      const entity = evolve(before, change);
      if (entity === before) continue;
      entities.set(change.id, entity);
      changes.push(change);
    }
    signal.throwIfAborted();
    return changes;
  }

  /** The time of the last event up to a time, or just before the first event. */
  #lastEventAt(time: number): number {
    return this.#times.findLast((one) => one <= time) ?? (this.#times[0] ?? 0) - 1;
  }

  #slide(time: number): void {
    this.#at = this.#lastEventAt(time);
    this.#slider.value = String(this.#at);
    this.field('at').value = this.zone.format(this.#at);
    this.#show();
  }

  /** Arrow keys move from event to event. */
  #step(event: KeyboardEvent): void {
    const isBack = event.key === 'ArrowLeft' || event.key === 'ArrowDown';
    if (!isBack && event.key !== 'ArrowRight' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    const to = isBack ? this.#at - 1 : this.#times.find((time) => time > this.#at);
    if (to !== undefined) this.#slide(to);
    this.#slider.dispatchEvent(new Event('change'));
  }

  /** Marks the events on the slider, one for each hundredth of its length. */
  #showMarks(): void {
    const { min, max } = this.#slider;
    const length = Number(max) - Number(min);
    const places = new Set(this.#times.map((time) => Math.round((200 * (time - Number(min))) / length) / 2));
    const marks = [...places].map((place) => {
      const mark = make('i');
      mark.style.left = `${place}%`;
      return mark;
    });
    this.find('.marks').replaceChildren(...marks);
  }

  #show(rows = PAGE_SIZE): void {
    this.#rows = rows;
    const { streams, evolve } = this.#entityType;
    const { noun } = streams;
    const { zone } = this;
    const [first = 0] = this.#times;
    const states = statesAt(this.#changes, this.#at, evolve);
    const when = this.#at < first ? `Before the first ${noun}` : `${zone.format(this.#at)} ${zone.name}`;
    this.#slider.ariaValueText = `${when}: ${counted(states.length, noun)}`;
    this.find('.when').textContent = this.#slider.ariaValueText;
    const ends = zone.formatEnds(first - 1, this.#times.at(-1) ?? first);
    this.find('.ends').replaceChildren(...ends.map((end) => make('span', '', end)));
    this.find('tbody').replaceChildren(...states.slice(0, rows).map((state) => this.#createRow(state)));
    const more = this.find('.more');
    more.hidden = states.length <= rows;
    more.textContent = `Show more of ${counted(states.length, noun)}`;
  }

  #createRow({ id, entity, since, changed }: State): HTMLTableRowElement {
    return make(
      'tr',
      changed === this.#at ? 'new' : '',
      make('td', 'name', cellText(entity.name)),
      make('td', 'tag', chip(entity.tag)),
      make('td', 'id', cellText(id)),
      make('td', 'time', this.zone.format(since)),
    );
  }
}
