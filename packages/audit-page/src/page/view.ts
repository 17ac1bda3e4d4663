import type { Api } from './api.ts';
import { find } from './dom.ts';

/** A section of the page, for an auditor who is signed in. */
export class View {
  protected readonly section: HTMLElement;
  protected readonly api: Api;
  /** Aborts what is being loaded. */
  protected loading = new AbortController();

  constructor(section: HTMLElement, api: Api) {
    this.section = section;
    this.api = api;
  }

  close(): void {
    this.loading.abort();
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

  protected showProblem(text: string): void {
    this.find('.problem').textContent = text;
  }
}
