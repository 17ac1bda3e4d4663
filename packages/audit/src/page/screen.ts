import type { EntityType } from '../entityType.ts';
import { type Api, errorMessage } from './api.ts';
import { addPicker, button, find, isolated } from './dom.ts';
import { visible } from './text.ts';
import type { Zone } from './zone.ts';

export type Context = { api: Api; entityType: EntityType; zone: Zone };

/** A message about a field starts with the name of the field. */
const FIELD = /^(?:The log has no event of the )?(user|id|type|since|until|at)\b/i;

/**
 * A section of the page for a signed-in auditor. The fields of its filters are in the fragment of the URL, such as
 * #timeline?user=alice, so that Back works and a screen can be shared. Like typed text, they need validation.
 */
export abstract class Screen {
  protected readonly section: HTMLElement;
  protected readonly api: Api;
  protected readonly zone: Zone;
  /** Aborts what is being loaded. */
  protected loading = new AbortController();
  /** The fields in the URL. */
  protected given: Record<string, string> = {};
  /** What had the focus before it was disabled, hidden or removed. */
  protected focused: HTMLElement | null = null;
  readonly #fields: readonly HTMLInputElement[];
  /** The fragment that is shown. */
  #shown: string | undefined;

  constructor(section: HTMLElement, { api, zone }: Context) {
    this.section = section;
    this.api = api;
    this.zone = zone;
    this.#fields = [...section.querySelectorAll<HTMLInputElement>('.filters [name]')];
    for (const field of this.#fields) if (field.dataset.time) addPicker(field);
    this.find('form').onsubmit = () => this.go(this.#typed());
  }

  /** Shows the results for the fields in `given`. */
  protected abstract show(): Promise<void>;

  /** Shows the fields of a fragment, unless they are already shown. */
  open(fragment: string): void {
    if (fragment === this.#shown) return;
    this.#fill(fragment);
    void this.show();
  }

  #fill(fragment: string): void {
    this.#shown = fragment;
    const given = new URLSearchParams(fragment.split(/\?(.*)/s)[1]);
    this.given = Object.fromEntries(this.#fields.map(({ name }) => [name, given.get(name) ?? '']));
    for (const field of this.#fields) {
      const text = this.given[field.name] as string;
      field.value = field.defaultValue = field.dataset.time ? this.zone.show(text, field.dataset.time) : text;
    }
  }

  /** Marks the shown results as outdated. */
  expire(): void {
    this.#shown = undefined;
  }

  /** Shows these fields, and adds them to the history. */
  go(fields: Record<string, string>): void {
    const fragment = this.url(fields);
    this.expire();
    if (fragment === location.hash) this.open(fragment);
    else location.hash = fragment;
  }

  /** Replaces the URL by the URL of these fields, which are already shown. */
  protected replaceUrl(fields: Record<string, string>): void {
    const fragment = this.url(fields);
    this.#fill(fragment);
    location.replace(fragment);
  }

  /** The URL of this screen with these fields, relative to the page. */
  url(fields: Record<string, string>): string {
    const given = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== ''));
    return `#${this.section.id}${given.size > 0 ? '?' : ''}${given}`;
  }

  /** The fields for a URL. An unchanged field keeps its value in the URL: its text may be less exact. */
  #typed(): Record<string, string> {
    const typed = this.#fields.map(({ name, value, defaultValue, dataset: { time } }) => {
      if (value === defaultValue) return [name, this.given[name] ?? ''];
      return [name, (time && this.zone.parse(value.trim(), time)) || value]; // a name may end in a space
    });
    return Object.fromEntries(typed);
  }

  /** The question that the results answer: the given filters as a sentence; empty without filters. */
  protected question(): string {
    const given = this.#fields.flatMap(({ name, dataset: { time } }) => {
      const text = this.given[name] ?? '';
      if (text === '') return [];
      return `${name} ${time ? `${this.zone.show(text, time)} (${this.zone.name})` : visible(text)}`;
    });
    return given.join(', ').replace(/^./, (letter) => letter.toUpperCase());
  }

  /** The fields in `given`, with times in RFC 3339. @throws RangeError */
  protected query(): URLSearchParams {
    const query = new URLSearchParams();
    for (const { name, dataset } of this.#fields) {
      const text = this.given[name] ?? '';
      const value = text && dataset.time ? this.zone.parse(text, dataset.time) : text;
      if (value === undefined) throw new RangeError(`${name} must be a time such as 2026-03-01 12:00`);
      if (value !== '') query.set(name, value);
    }
    return query;
  }

  close(): void {
    this.loading.abort();
  }

  /** Starts loading results. The shown results stay, dimmed, until new results arrive. */
  protected load(): AbortSignal {
    this.focused = document.activeElement as HTMLElement;
    this.showError();
    this.find('.results').inert = true;
    return this.restart();
  }

  protected showResults(): void {
    const results = this.find('.results');
    results.inert = results.hidden = false;
  }

  /** Gives the focus back to `focused` or, if it can no longer have it, to the title. */
  protected refocus(): void {
    const { focused } = this;
    this.focused = null;
    if (!focused || focused === document.body) return;
    if (document.activeElement === focused) focused.blur(); // the browser has not noticed yet that it is hidden
    for (const element of [focused, this.find('h2')])
      if (document.activeElement === document.body) element.focus();
  }

  protected restart(): AbortSignal {
    this.loading.abort();
    this.loading = new AbortController();
    return this.loading.signal;
  }

  protected find<E extends Element = HTMLElement>(selector: string): E {
    return find<E>(this.section, selector);
  }

  protected field(name: string): HTMLInputElement {
    return this.find<HTMLInputElement>(`[name="${name}"]`);
  }

  /** Shows an error at the field that caused it; without an error, removes the message. */
  protected showError(error?: unknown): void {
    const problem = this.find('.problem');
    const message = error === undefined ? '' : errorMessage(error);
    const [, name] = FIELD.exec(message) ?? [];
    for (const field of this.#fields) {
      const isRefused = field.name === name?.toLowerCase();
      field.ariaInvalid = isRefused ? 'true' : null;
      if (isRefused) field.after(problem);
    }
    if (name === undefined) this.find('form').after(problem);
    problem.replaceChildren(...isolated(message));
    if (error instanceof TypeError)
      problem.append(
        ' ',
        button('Try again', () => void this.show()),
      );
  }
}
