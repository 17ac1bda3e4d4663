import { barsOf, type TimeRange } from './bars.ts';
import { find, make, moveByArrows } from './dom.ts';
import { counted, utc } from './text.ts';

/** Bars of events over time; one that is clicked is selected. */
export class Histogram {
  readonly #figure: HTMLElement;
  readonly #onSelect: (range: TimeRange) => void;

  constructor(figure: HTMLElement, onSelect: (range: TimeRange) => void) {
    this.#figure = figure;
    this.#onSelect = onSelect;
    moveByArrows(find(figure, '.bars'), 'button', ['ArrowLeft', 'ArrowRight']);
  }

  show(times: readonly number[]): void {
    const bars = barsOf(times);
    const most = Math.max(...bars.map(({ count }) => count));
    const container = find(this.#figure, '.bars');
    this.#figure.hidden = bars.length === 0;
    const focused = [...container.children].indexOf(document.activeElement as Element);
    container.replaceChildren(...bars.map((bar) => this.#bar(bar, most)));
    const last = [...container.querySelectorAll('button')].at(-1);
    if (last) last.tabIndex = 0;
    if (focused !== -1) (container.children[focused] as HTMLElement | undefined)?.focus();
    const [from, to] = this.#figure.querySelectorAll('.axis span');
    from?.replaceChildren(utc(bars[0]?.from ?? Number.NaN).slice(0, 19));
    to?.replaceChildren(utc(bars.at(-1)?.to ?? Number.NaN).slice(0, 19));
  }

  #bar({ from, to, count }: TimeRange & { count: number }, most: number): HTMLElement {
    if (count === 0) return make('span');
    const bar = make('button', '', make('i'));
    bar.type = 'button';
    bar.tabIndex = -1;
    bar.title = `${counted(count, 'event')} from ${utc(from)} to ${utc(to)}`;
    bar.setAttribute('aria-label', bar.title);
    find(bar, 'i').style.height = `${Math.max(4, (100 * count) / most)}%`;
    bar.addEventListener('click', () => this.#onSelect({ from, to }));
    return bar;
  }
}
