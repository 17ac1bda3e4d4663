import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { DAY_MS, lengthName } from '../../src/histogram/bars.ts';
import { Button } from '../parts.tsx';
import { are, count, counted } from '../text.ts';
import { ticks } from '../ticks.ts';
import { DATE, Zone } from '../zone.ts';
import { type BarRange, barRanges, roundUp, withoutTime } from './barRanges.ts';
import type { Counts } from './timelineState.ts';

type Props = {
  counts: Counts;
  zone: Zone;
  isFiltered: boolean;
  onSelect: (range: { since: string; until: string }) => void;
};

/**
 * The counts of events over time. It is a slider, since bars may be too narrow for buttons: arrow keys, a pointer or a
 * tap select a bar, whose count is shown; Enter or a click on the selected bar filters.
 */
export function Chart({ counts, zone, isFiltered, onSelect }: Props): JSX.Element | null {
  const [selected, select] = useState<number>();
  const ranges = barRanges(counts.bars);
  if (ranges.length < 2) return null; // a single bar shows nothing
  const { first = Number.NaN, last = Number.NaN, barLength } = counts.bars;
  const top = roundUp(Math.max(...ranges.map(({ events }) => events)));
  const start = ranges[0]?.start ?? 0;
  const missing = withoutTime(counts);
  const length = ranges.length * barLength;
  const bar = selected === undefined ? undefined : ranges.find((one) => one.start === selected);
  const current = bar ? ranges.indexOf(bar) : ranges.length - 1;
  const describe = ({ events, from, to }: BarRange): string =>
    `${counted(events, 'event')} from ${zone.formatEnds(from, to).join(' to ')}`;
  const filter = ({ from, to }: BarRange): void => {
    select(undefined);
    onSelect({ since: new Date(from).toISOString(), until: new Date(to).toISOString() });
  };

  function onKeyDown(event: KeyboardEvent): void {
    const last = ranges.length - 1;
    const to = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: last }[event.key];
    const range = ranges[Math.min(Math.max(to ?? current, 0), last)];
    if (event.key === 'Enter' && range && range.events > 0) filter(range);
    if (event.key === 'Escape') select(undefined);
    if (to === undefined) return;
    event.preventDefault();
    select(range?.start);
  }

  // The service counts days of UTC; a page cannot split them.
  const isOfDays = barLength >= DAY_MS;
  const [from, to] = isOfDays
    ? new Zone().formatEnds(first, last).map((end) => end.slice(0, DATE))
    : zone.formatEnds(first, last);
  const unit = `${lengthName(barLength)}${isOfDays && zone.isLocal ? ' of UTC' : ''}`;
  const axis = ticks(first, last, isOfDays ? new Zone() : zone);
  const firstDate = axis.findIndex(({ label }) => label.length === DATE);
  const scope = counts.isComplete ? '' : `the newest ${count(counts.matching)}, `;
  return (
    <figure class="chart" style={{ '--bars': ranges.length }}>
      <figcaption>
        {isFiltered ? 'Matching events' : 'Events'} per {unit}: {scope}
        <span>
          {from} to {to}
          {zone.isLocal && !isOfDays && ` (${zone.name})`}
        </span>
      </figcaption>
      <div class="scale" aria-hidden="true">
        {(top > 1 ? [top, top / 2, 0] : [top, 0]).map((events) => (
          <span key={events}>{count(events)}</span>
        ))}
      </div>
      <div
        class="bars"
        role="slider"
        tabIndex={0}
        aria-label="Events over time; Enter filters"
        aria-valuemin={1}
        aria-valuemax={ranges.length}
        aria-valuenow={current + 1}
        aria-valuetext={describe(ranges[current] as BarRange)}
        onKeyDown={onKeyDown}
        onFocus={({ currentTarget }) =>
          currentTarget.matches(':focus-visible') && select(ranges[current]?.start)
        }
      >
        {ranges.map((range) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: keys are of the slider
          // biome-ignore lint/a11y/noStaticElementInteractions: the slider is the control
          <div
            key={range.start}
            class={range.start === selected ? 'current' : ''}
            onPointerEnter={({ pointerType }) => pointerType === 'mouse' && select(range.start)}
            onClick={() =>
              range.start === selected && range.events > 0 ? filter(range) : select(range.start)
            }
          >
            {range.events > 0 && <i style={{ height: `${Math.max(3, (100 * range.events) / top)}%` }} />}
          </div>
        ))}
      </div>
      <div class="axis" aria-hidden="true">
        {axis.map(({ time, label }, i) => {
          const at = (100 * (time - start)) / length;
          return (
            <span
              key={time}
              style={{ left: `${at}%` }}
              class={at > 88 ? 'last' : at > 76 || (i - firstDate) % 2 !== 0 ? 'spare' : ''}
            >
              {label}
            </span>
          );
        })}
      </div>
      <p class="selected">
        {bar ? (
          <>
            {describe(bar)}{' '}
            {bar.events > 0 && (
              <Button class="quiet only" tabIndex={-1} onClick={() => filter(bar)}>
                Show only these
              </Button>
            )}
          </>
        ) : (
          'Select a bar for its count.'
        )}
      </p>
      {missing > 0 && (
        <p class="without-time">
          {are(missing, 'event')} in no bar, for lack of a time: erased events have none.
        </p>
      )}
    </figure>
  );
}
