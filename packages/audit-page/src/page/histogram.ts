import { barsOf, type TimeRange } from './bars.ts';
import { button, find, make } from './dom.ts';
import { counted, utc } from './text.ts';

export function showHistogram(
  figure: HTMLElement,
  times: readonly number[],
  onSelect: (range: TimeRange) => void,
): void {
  const bars = barsOf(times);
  const most = Math.max(...bars.map(({ count }) => count));
  const barOf = ({ from, to, count }: (typeof bars)[number]): HTMLElement => {
    if (count === 0) return make('span');
    const bar = button(make('i'), () => onSelect({ from, to }));
    bar.tabIndex = -1;
    bar.title = bar.ariaLabel = `${counted(count, 'event')} from ${utc(from)} to ${utc(to)}`;
    find(bar, 'i').style.height = `${Math.max(4, (100 * count) / most)}%`;
    return bar;
  };
  const container = find(figure, '.bars');
  const focused = [...container.children].indexOf(document.activeElement as Element);
  container.replaceChildren(...bars.map(barOf));
  const last = [...container.querySelectorAll('button')].at(-1);
  if (last) last.tabIndex = 0;
  (container.children[focused] as HTMLElement | undefined)?.focus();
  const ends = [bars[0]?.from, bars.at(-1)?.to].map((time) => utc(time ?? Number.NaN).slice(0, 19));
  find(figure, '.axis').replaceChildren(...ends.map((end) => make('span', '', end)));
  figure.hidden = bars.length === 0;
}
