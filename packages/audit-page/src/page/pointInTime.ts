import type { Domain, Entity } from '../domain.ts';
import { type Api, messageOf } from './api.ts';
import { cellText, chip, make } from './dom.ts';
import { linesOf, parseEvent } from './events.ts';
import { type Change, type State, statesAt } from './states.ts';
import { counted, utc } from './text.ts';
import { View } from './view.ts';

const PAGE_SIZE = 500;

export class PointInTime extends View {
  readonly #domain: Domain;
  readonly #slider = this.find<HTMLInputElement>('[type="range"]');
  /** The events that change an entity, in log order. */
  #changes: Change[] = [];
  #times: number[] = [];
  #rows = PAGE_SIZE;

  constructor(section: HTMLElement, api: Api, domain: Domain) {
    super(section, api);
    this.#domain = domain;
    this.find('form').onsubmit = () => this.showUser(this.field('user').value.trim());
    this.#slider.oninput = () => this.#show();
    this.find('.more').onclick = () => this.#show(this.#rows + PAGE_SIZE);
  }

  /** Shows the entities of a user at a time, by default the last one. */
  async showUser(user: string, time = Number.POSITIVE_INFINITY): Promise<void> {
    this.field('user').value = user;
    const signal = this.restart();
    this.find('.state').hidden = true;
    this.showProblem('');
    try {
      this.#changes = await this.#read(user, signal);
    } catch (error) {
      if (!signal.aborted) this.showProblem(messageOf(error));
      return;
    }
    const times = new Set(this.#changes.map((change) => change.time).filter(Number.isFinite));
    this.#times = [...times].sort((a, b) => a - b);
    this.#slider.max = String(this.#times.length);
    this.#slider.value = String(this.#times.filter((one) => !(one > time)).length);
    this.find('.state').hidden = false;
    this.#show();
  }

  async #read(user: string, signal: AbortSignal): Promise<Change[]> {
    const { parseStream, evolve } = this.#domain;
    const changes: Change[] = [];
    const entities = new Map<string, Entity | undefined>();
    const response = await this.api.get(`events?${new URLSearchParams({ user })}`, { signal });
    for await (const line of linesOf(response)) {
      const { type, revision, data, time, subject } = parseEvent(line);
      const stream = parseStream(subject);
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

  #show(rows = PAGE_SIZE): void {
    this.#rows = rows;
    const { noun, evolve } = this.#domain;
    const at = Number(this.#slider.value);
    const time = this.#times[at - 1] ?? Number.NEGATIVE_INFINITY;
    const states = statesAt(this.#changes, time, evolve);
    const when = at === 0 ? `Before the first ${noun}` : `${utc(time)} UTC`;
    this.#slider.ariaValueText = `${when}: ${counted(states.length, noun)}`;
    this.find('.when').textContent = this.#slider.ariaValueText;
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
    make('td', 'name', cellText(entity.name)),
    make('td', 'tag', chip(entity.tag)),
    make('td', 'id', cellText(id)),
    make('td', 'time', utc(since)),
  );
}
