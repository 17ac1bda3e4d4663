import type { StreamNames } from '@event-sourced/event-log/replay';

/** What the events of a stream make, as far as the page shows it. */
export type Entity = { name: string; tag?: string | undefined };

/** What is known of the app whose events are shown. The page loads it from a module, which runs in browsers. */
export type Domain = {
  title: string;
  /** The command line of the app, such as `npx --no app`. */
  command: string;
  streams: StreamNames;
  /** The request that creates an entity, shown for an empty log: a path in the API, and JSON. */
  create: { path: string; body: string };
  /** An entity after one more event of its stream; undefined if there is none. */
  evolve(
    entity: Entity | undefined,
    event: { type: string; revision: bigint; data: unknown },
  ): Entity | undefined;
};
