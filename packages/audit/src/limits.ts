import { InFlight } from '@event-sourced/http';

/**
 * The maximum number of responses in flight per user, by kind. All except tiles and receipts hold about a page in
 * memory until the client has read it; all except tiles occupy the event loop for milliseconds. A monitor reads four
 * tiles at a time.
 */
export const MAX_IN_FLIGHT = {
  tiles: 100,
  receipts: 8,
  replays: 8,
  'pages of events': 8,
  histograms: 4,
  'event streams': 20,
} as const;

export const inFlightLimit = (kind: keyof typeof MAX_IN_FLIGHT): InFlight =>
  new InFlight(kind, MAX_IN_FLIGHT[kind]);
