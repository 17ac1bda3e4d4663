import { InFlight as LimitedInFlight } from '@event-sourced/http';

/**
 * How many responses of a kind a user may have in flight. All but tiles and receipts hold about a page in memory
 * until their client has read it; all but tiles occupy the event loop for milliseconds. `monitor` reads four
 * tiles and bundles at once.
 */
export const MAX_IN_FLIGHT = {
  lists: 100,
  tiles: 100,
  'bundles of entries': 8,
  receipts: 8,
  replays: 8,
  'pages of events': 8,
  'event streams': 20,
} as const;
export type Kind = keyof typeof MAX_IN_FLIGHT;

export class InFlight extends LimitedInFlight {
  constructor(kind: Kind) {
    super(kind, MAX_IN_FLIGHT[kind]);
  }
}
