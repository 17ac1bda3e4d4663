import type { StreamNames } from '@event-sourced/event-log/replay';

/** The fields that the page shows of an entity, the result of its stream's events. */
export type Entity = { name: string; tag?: string | undefined };

/** What the package needs to know about the app. The page imports it from a module that runs in browsers. */
export type Domain = {
  title: string;
  /** The command line of the app, such as `npx --no app`. */
  command: string;
  streams: StreamNames;
  /** A request that creates an entity, shown for an empty log: a path of the API, and a JSON body. */
  create: { path: string; body: string };
  /** Applies one event of its stream to an entity; undefined if the entity does not exist. */
  evolve(
    entity: Entity | undefined,
    event: { type: string; revision: bigint; data: unknown },
  ): Entity | undefined;
};
