import type { JSX } from 'preact';
import { DAY_MS, MINUTE_MS } from '../../src/histogram/bars.ts';
import { useShown } from '../app.ts';
import { Button } from '../parts.tsx';
import { filtersOf, showFilter } from '../route.ts';
import { beginning, capital } from '../text.ts';
import type { Zone } from '../zone.ts';

const MAX_CHIP_CHARACTERS = 60;

/** Ranges of time until now, by their names. */
const PRESETS: Record<string, (now: number, zone: Zone) => string> = {
  'Last hour': (now) => new Date(now - 60 * MINUTE_MS).toISOString(),
  Today: (now, zone) => zone.parse(zone.format(now, '2026-03-01'.length), '00:00') as string,
  '7 days': (now) => new Date(now - 7 * DAY_MS).toISOString(),
};

/** The filters that are set, each of which can be removed, and ranges of time to choose. */
export function Chips(): JSX.Element {
  const { state, app } = useShown();
  const { route, zone } = state;
  const filters = filtersOf(route);
  const { position: _, ...fields } = route.fields;
  return (
    <div class="chips">
      {filters.map(([name, text]) => {
        const shown = beginning(showFilter('timeline', [name, text], zone), MAX_CHIP_CHARACTERS);
        return (
          <span class="chip" key={name}>
            <span>{capital(name)}</span> <bdi>{shown}</bdi>
            <Button
              aria-label={`Remove ${name} ${shown}`}
              onClick={() => app.go('timeline', { ...fields, [name]: '' })}
            >
              ✕
            </Button>
          </span>
        );
      })}
      {filters.length > 1 && (
        <Button class="clear-all" onClick={() => app.go('timeline', {})}>
          Clear all
        </Button>
      )}
      <span class="presets">
        {Object.entries(PRESETS).map(([name, since]) => (
          <Button
            key={name}
            onClick={() => {
              const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
              app.go('timeline', { ...fields, since: since(now, zone), until: '' });
            }}
          >
            {name}
          </Button>
        ))}
      </span>
    </div>
  );
}
