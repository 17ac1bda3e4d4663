import type { BarCounts } from '../histogram/bars.ts';
import { find, make } from './dom.ts';
import { count, counted } from './text.ts';
import { ticks } from './ticks.ts';
import type { Zone } from './zone.ts';

/** Ends of a scale that are easily halved or read. */
const ROUND = [1, 2, 4, 6, 8, 10];

/**
 * Draws counts of events over time, from the first to the last event. It is a slider, since bars may be too narrow for
 * buttons: arrow keys move, and Enter or a click selects the range of a bar.
 */
export function showHistogram(
  figure: HTMLElement,
  { barLength, bars, first = Number.NaN, last = Number.NaN }: BarCounts,
  zone: Zone,
  onSelect: (range: { since: string; until: string }) => void,
): void {
  const [[start] = [0]] = bars;
  const [end] = bars.at(-1) ?? [0];
  const number = (end - start) / barLength + 1;
  figure.hidden = bars.length < 2; // a single bar shows nothing
  if (figure.hidden) return;
  const top = roundUp(Math.max(...bars.map(([, events]) => events)));
  const counts = new Map(bars);
  const range = (i: number): [number, number] => {
    const from = start + i * barLength;
    return [Math.max(from, first), Math.min(from + barLength - 1, last)];
  };
  const describe = (i: number): string => {
    const ends = zone.formatEnds(...range(i)).join(' to ');
    return `${counted(counts.get(start + i * barLength) ?? 0, 'event')} from ${ends}`;
  };
  const createBar = (_: unknown, i: number): HTMLElement => {
    const events = counts.get(start + i * barLength) ?? 0;
    const bar = make('div', '', ...(events > 0 ? [make('i')] : []));
    bar.title = describe(i);
    if (events > 0) find(bar, 'i').style.height = `${Math.max(3, (100 * events) / top)}%`;
    return bar;
  };
  const slider = find(figure, '.bars');
  slider.replaceChildren(...Array.from({ length: number }, createBar));
  const select = (i: number): void => {
    const [since = '', until = ''] = range(i).map((time) => new Date(time).toISOString());
    if (counts.has(start + i * barLength)) onSelect({ since, until });
  };
  const move = (i: number): void => {
    Object.assign(slider, {
      ariaValueMin: 1,
      ariaValueMax: number,
      ariaValueNow: i + 1,
      ariaValueText: describe(i),
    });
    for (const [at, bar] of [...slider.children].entries()) bar.classList.toggle('current', at === i);
  };
  const isFocused = document.activeElement === slider; // live events must not move it
  move(isFocused ? Math.min(Number(slider.ariaValueNow), number) - 1 : number - 1);
  slider.onclick = ({ target }) => {
    const i = [...slider.children].findIndex((bar) => bar.contains(target as Node));
    if (i !== -1) select(i);
  };
  slider.onkeydown = (event) => {
    const i = Number(slider.ariaValueNow) - 1;
    const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: number - 1 }[event.key];
    if (event.key === 'Enter') select(i);
    if (to === undefined) return;
    event.preventDefault();
    move(Math.min(Math.max(to, 0), number - 1));
  };
  figure.style.setProperty('--bars', String(number));
  const scale = top > 1 ? [top, top / 2, 0] : [top, 0];
  find(figure, '.scale').replaceChildren(...scale.map((events) => make('span', '', count(events))));
  const axis = ticks(first, last, zone).map(({ time, label }) => {
    const tick = make('span', '', label);
    tick.style.left = `${(100 * (time - start)) / (number * barLength)}%`;
    return tick;
  });
  find(figure, '.axis').replaceChildren(...axis);
}

function roundUp(events: number): number {
  const power = 10 ** Math.floor(Math.log10(events));
  return power * (ROUND.find((one) => one * power >= events) as number);
}
