import type { Entity, EntityType } from '../entityType.ts';
import { cellText, chip, link, make } from './dom.ts';
import { parseEvent, readLines, readPage } from './events.ts';
import { type Context, Screen } from './screen.ts';
import { type Change, type State, statesAt } from './states.ts';
import { counted, parseTime } from './text.ts';

const PAGE_SIZE = 500;
/** The page offers the users of this number of newest events. */
const MAX_EVENTS = 1_000;
const MAX_USERS = 100;

export class PointInTime extends Screen {
  readonly #entityType: EntityType;
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
    this.#slider.oninput = () => this.#slide();
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
      if (user === null) return await this.#showUsers(signal);
      this.#changes = await this.#read(user, signal);
      this.find('.users').replaceChildren();
      const times = new Set(this.#changes.map(({ time }) => time).filter(Number.isFinite));
      this.#times = [...times].sort((a, b) => a - b);
      this.#at = at === null ? (this.#times.at(-1) ?? 0) : parseTime(at);
      this.#slider.max = String(this.#times.length);
      this.#slider.value = String(this.#times.filter((time) => time <= this.#at).length);
      this.find('.state').hidden = false;
      this.showResults();
      this.#show();
    } catch (error) {
      if (!signal.aborted) this.showError(error);
    }
  }

  async #showUsers(signal: AbortSignal): Promise<void> {
    const { events } = await readPage(this.api, `order=descending&limit=${MAX_EVENTS}`, signal);
    const streams = events.map(({ subject }) => this.#entityType.streams.parse(subject));
    const users = new Set(streams.map((stream) => stream?.user ?? '').filter((user) => user !== ''));
    const links = [...users]
      .slice(0, MAX_USERS)
      .map((user) => link(cellText(user), this.url({ ...this.given, user }), 'chip'));
    const text = `Users of the newest ${counted(events.length, 'event')}:`;
    this.find('.users').replaceChildren(events.length === 0 ? 'The log is empty.' : text, ...links);
    this.find('.state').hidden = true;
    this.showResults();
  }

  async #read(user: string, signal: AbortSignal): Promise<Change[]> {
    const { streams, evolve } = this.#entityType;
    const changes: Change[] = [];
    const entities = new Map<string, Entity | undefined>();
    const response = await this.api.get(`events?${new URLSearchParams({ user })}`, { signal });
    for await (const line of readLines(response)) {
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

  #slide(): void {
    const at = Number(this.#slider.value);
    this.#at = this.#times[at - 1] ?? (this.#times[0] ?? 0) - 1;
    this.field('at').value = this.zone.format(this.#at);
    this.#show();
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
    this.find('.axis').replaceChildren(...ends.map((end) => make('span', '', end)));
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
