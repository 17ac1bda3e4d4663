import { type Api, messageOf } from './api.ts';
import { cellText, fieldValue, find, make, setField } from './dom.ts';
import { readEvents } from './events.ts';
import { counted, utc } from './text.ts';

/** Rows that are added at a time. */
const PAGE_SIZE = 500;

type Plant = { id: string; name: string; tag: string | undefined; time: number };

/** The plants of a user at a point in time. */
export class AsItWas {
  readonly #section: HTMLElement;
  readonly #api: Api;
  readonly #form: HTMLFormElement;
  readonly #slider: HTMLInputElement;
  readonly #closed = new AbortController();
  #loading = new AbortController();
  /** In log order; an ID occurs once. */
  #plants: Plant[] = [];
  /** The times at which they were created, ascending. */
  #moments: number[] = [];
  #rows = PAGE_SIZE;

  constructor(section: HTMLElement, api: Api) {
    this.#section = section;
    this.#api = api;
    this.#form = find<HTMLFormElement>(section, 'form');
    this.#slider = find<HTMLInputElement>(section, 'input[type="range"]');
    const { signal } = this.#closed;
    this.#form.addEventListener(
      'submit',
      (event) => {
        event.preventDefault();
        void this.#load(fieldValue(this.#form, 'user'));
      },
      { signal },
    );
    this.#slider.addEventListener('input', () => this.#show(), { signal });
    find(section, '.more').addEventListener('click', () => this.#show(this.#rows + PAGE_SIZE), { signal });
  }

  close(): void {
    this.#closed.abort();
    this.#loading.abort();
    this.#plants = [];
    find(this.#section, 'tbody').replaceChildren();
    find(this.#section, '.moment').hidden = true;
  }

  /** Shows the plants of a user as they were at a time. */
  async showUser(user: string, time: number): Promise<void> {
    setField(this.#form, 'user', user);
    await this.#load(user, time);
  }

  async #load(user: string, time = Number.POSITIVE_INFINITY): Promise<void> {
    this.#loading.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    const moment = find(this.#section, '.moment');
    const problem = find(this.#section, '.problem');
    moment.hidden = true;
    problem.textContent = '';
    try {
      const plants = new Map<string, Plant>();
      for await (const event of readEvents(this.#api, new URLSearchParams({ user }), signal)) {
        const { type, revision, plant, name = '', tag } = event;
        if (type === 'PlantCreated' && revision === '0' && plant?.user === user)
          plants.set(plant.id, { id: plant.id, name, tag, time: event.time });
      }
      this.#plants = [...plants.values()];
    } catch (error) {
      if (!signal.aborted) problem.textContent = messageOf(error);
      return;
    }
    const times = this.#plants.map((plant) => plant.time).filter(Number.isFinite);
    this.#moments = [...new Set(times)].sort((a, b) => a - b);
    this.#slider.max = String(this.#moments.length);
    this.#slider.value = String(this.#moments.filter((one) => !(one > time)).length);
    moment.hidden = false;
    this.#show();
  }

  #show(rows = PAGE_SIZE): void {
    this.#rows = rows;
    const at = Number(this.#slider.value);
    const time = this.#moments[at - 1] ?? Number.NEGATIVE_INFINITY;
    const plants = this.#plants.filter((plant) => plant.time <= time);
    const when = at === 0 ? 'Before the first plant' : `${utc(time)} UTC`;
    const text = `${when}: ${counted(plants.length, 'plant')}`;
    find(this.#section, '.when').textContent = text;
    this.#slider.setAttribute('aria-valuetext', text);
    find(this.#section, 'tbody').replaceChildren(
      ...plants.slice(0, rows).map((plant) => plantRow(plant, time)),
    );
    const more = find(this.#section, '.more');
    more.hidden = plants.length <= rows;
    more.textContent = `Show more of ${counted(plants.length, 'plant')}`;
  }
}

function plantRow({ id, name, tag, time }: Plant, now: number): HTMLTableRowElement {
  return make(
    'tr',
    time === now ? 'new' : '',
    make('td', 'name', cellText(name)),
    make('td', 'tag', tag === undefined ? '' : make('span', 'chip', cellText(tag))),
    make('td', 'id', cellText(id)),
    make('td', 'time', utc(time)),
  );
}
