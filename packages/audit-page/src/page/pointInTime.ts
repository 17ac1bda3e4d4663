import type { Domain, Entity } from '../domain.ts';
import { type Api, messageOf } from './api.ts';
import { cellText, chip, make } from './dom.ts';
import { readEvents, textOf } from './events.ts';
import { type Change, type State, statesAt } from './states.ts';
import { counted, utc } from './text.ts';
import { View } from './view.ts';

/** Rows that are added at a time. */
const PAGE_SIZE = 500;

/** The entities of a user at a point in time. */
export class PointInTime extends View {
  readonly #domain: Domain;
  readonly #slider = this.find<HTMLInputElement>('input[type="range"]');
  /** The events that change an entity, in log order. */
  #changes: Change[] = [];
  /** The times of changes, ascending. */
  #times: number[] = [];
  #rows = PAGE_SIZE;

  constructor(section: HTMLElement, api: Api, domain: Domain) {
    super(section, api);
    this.#domain = domain;
    this.on('form', 'submit', () => this.#load(this.field('user').value.trim()));
    this.on('input[type="range"]', 'input', () => this.#show());
    this.on('.more', 'click', () => this.#show(this.#rows + PAGE_SIZE));
  }

  override close(): void {
    super.close();
    this.#changes = [];
    this.find('tbody').replaceChildren();
    this.find('.state').hidden = true;
  }

  /** Shows the entities of a user at a time. */
  async showUser(user: string, time: number): Promise<void> {
    this.field('user').value = user;
    await this.#load(user, time);
  }

  async #load(user: string, time = Number.POSITIVE_INFINITY): Promise<void> {
    const signal = this.restart();
    this.find('.state').hidden = true;
    this.showProblem('');
    const { parseStream, evolve } = this.#domain;
    const changes: Change[] = [];
    try {
      const entities = new Map<string, Entity | undefined>();
      for await (const event of readEvents(this.api, new URLSearchParams({ user }), signal)) {
        const { type, revision, data, subject } = event;
        const stream = parseStream(subject);
        if (stream?.user !== user) continue;
        const { id } = stream;
        const entity = evolve(entities.get(id), event);
        if (entity === entities.get(id)) continue;
        entities.set(id, entity);
        changes.push({ type, revision, data, time: event.time, id });
      }
      signal.throwIfAborted();
    } catch (error) {
      if (!signal.aborted) this.showProblem(messageOf(error));
      return;
    }
    this.#changes = changes;
    const times = new Set(changes.map((change) => change.time).filter(Number.isFinite));
    this.#times = [...times].sort((a, b) => a - b);
    this.#slider.max = String(this.#times.length);
    this.#slider.value = String(this.#times.filter((one) => !(one > time)).length);
    this.find('.state').hidden = false;
    this.#show();
  }

  #show(rows = PAGE_SIZE): void {
    this.#rows = rows;
    const { noun, evolve } = this.#domain;
    const at = Number(this.#slider.value);
    const time = this.#times[at - 1] ?? Number.NEGATIVE_INFINITY;
    const states = statesAt(this.#changes, time, evolve);
    const when = at === 0 ? `Before the first ${noun}` : `${utc(time)} UTC`;
    const text = `${when}: ${counted(states.length, noun)}`;
    this.find('.when').textContent = text;
    this.#slider.setAttribute('aria-valuetext', text);
    this.find('tbody').replaceChildren(...states.slice(0, rows).map((state) => stateRow(state, time)));
    const more = this.find('.more');
    more.hidden = states.length <= rows;
    more.textContent = `Show more of ${counted(states.length, noun)}`;
  }
}

function stateRow({ id, entity, since, changed }: State, now: number): HTMLTableRowElement {
  return make(
    'tr',
    changed === now ? 'new' : '',
    make('td', 'name', cellText(textOf(entity.name) ?? '')),
    make('td', 'tag', chip(textOf(entity.tag))),
    make('td', 'id', cellText(id)),
    make('td', 'time', utc(since)),
  );
}
