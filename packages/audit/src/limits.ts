import { InFlight } from '@event-sourced/http';

/**
 * How many responses of a kind a user may have in flight. All but tiles and receipts hold about a page in memory
 * until their client has read it; all but tiles occupy the event loop for milliseconds. A monitor reads four
 * tiles and bundles at once.
 */
export const MAX_IN_FLIGHT = {
  tiles: 100,
  'bundles of entries': 8,
  receipts: 8,
  replays: 8,
  'pages of events': 8,
  'event streams': 20,
} as const;

export const limitOf = (kind: keyof typeof MAX_IN_FLIGHT): InFlight =>
  new InFlight(kind, MAX_IN_FLIGHT[kind]);
