import type { StreamNames } from '@event-sourced/event-log/replay';

/** The fields that the page shows of an entity, the result of its stream's events. */
export type Entity = { name: string; tag?: string | undefined };

/** The kind of entity that the log is about, and texts of the page. Browsers import it, too. */
export type EntityType = {
  title: string;
  /** The command line of the app, such as `bin/app`. */
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
