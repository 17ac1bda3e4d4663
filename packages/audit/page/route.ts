import { visible } from './text.ts';
import type { Zone } from './zone.ts';

/** The screens by their fragment, with the fields of their filters; `time`: the time of day of a date alone. */
export const SCREENS = {
  timeline: {
    title: 'Timeline',
    fields: { user: {}, id: {}, type: {}, since: { time: '00:00' }, until: { time: '23:59:59.999' } },
  },
  'point-in-time': { title: 'Point in time', fields: { user: {}, at: { time: '23:59:59.999' } } },
  check: { title: 'Check', fields: {} },
  help: { title: 'Help', fields: {} },
} as const;
export type Screen = keyof typeof SCREENS;
export type Fields = Readonly<Record<string, string>>;

/** The screen and the fields in a fragment such as #timeline?user=alice. Like typed text, they need validation. */
export type Route = { screen: Screen; fields: Fields };

export function parseRoute(hash: string): Route {
  const [name = '', query] = hash.slice(1).split(/\?(.*)/s);
  const screen = name in SCREENS ? (name as Screen) : 'timeline';
  return { screen, fields: name === screen ? Object.fromEntries(new URLSearchParams(query)) : {} };
}

/** The URL of a screen with these fields, relative to the page. */
export function url(screen: Screen, fields: Fields = {}): string {
  const given = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== ''));
  return `#${screen}${given.size > 0 ? '?' : ''}${given}`;
}

/** The default time of day of a field with a time; undefined for other fields. */
export function timeOfDay(screen: Screen, name: string): string | undefined {
  const fields: Record<string, { time?: string }> = SCREENS[screen].fields;
  return fields[name]?.time;
}

/** The filters among the fields of a fragment, in their order. */
export function filtersOf({ screen, fields }: Route): [name: string, text: string][] {
  return Object.keys(SCREENS[screen].fields)
    .map((name): [string, string] => [name, fields[name] ?? ''])
    .filter(([, text]) => text !== '');
}

/** A filter as it is shown. */
export function showFilter(screen: Screen, [name, text]: [string, string], zone: Zone): string {
  const time = timeOfDay(screen, name);
  return time === undefined ? visible(text) : `${zone.show(text, time)} (${zone.name})`;
}

/** The query of the filters, with times in RFC 3339. @throws RangeError */
export function queryOf(route: Route, zone: Zone): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, text] of filtersOf(route)) {
    const time = timeOfDay(route.screen, name);
    const value = time === undefined ? text : zone.parse(text, time);
    if (value === undefined) throw new RangeError(`${name} must be a time such as 2026-03-01 12:00`);
    query.set(name, value);
  }
  return query;
}
