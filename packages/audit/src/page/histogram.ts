import { toBars } from './bars.ts';
import { button, find, make } from './dom.ts';
import { counted } from './text.ts';
import type { Zone } from './zone.ts';

export function showHistogram(
  figure: HTMLElement,
  times: readonly number[],
  zone: Zone,
  onSelect: (range: { since: string; until: string }) => void,
): void {
  const bars = toBars(times);
  const most = Math.max(...bars.map(({ count }) => count));
  const createBar = ({ from, to, count }: (typeof bars)[number]): HTMLElement => {
    if (count === 0) return make('span');
    const [since = '', until = ''] = [from, to].map((time) => new Date(time).toISOString());
    const bar = button(make('i'), () => onSelect({ since, until }));
    bar.tabIndex = -1;
    bar.title = bar.ariaLabel = `${counted(count, 'event')} from ${zone.format(from)} to ${zone.format(to)}`;
    find(bar, 'i').style.height = `${Math.max(4, (100 * count) / most)}%`;
    return bar;
  };
  const container = find(figure, '.bars');
  const focused = [...container.children].indexOf(document.activeElement as Element);
  container.replaceChildren(...bars.map(createBar));
  const last = [...container.querySelectorAll('button')].at(-1);
  if (last) last.tabIndex = 0;
  (container.children[focused] as HTMLElement | undefined)?.focus();
  const ends = zone.formatEnds(bars[0]?.from ?? Number.NaN, bars.at(-1)?.to ?? Number.NaN);
  find(figure, '.axis').replaceChildren(...ends.map((end) => make('span', '', end)));
  figure.hidden = bars.length === 0;
}
