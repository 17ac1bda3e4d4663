import type { StreamNames } from '@event-sourced/event-log/replay';

/** The fields that the page shows of an entity, the result of its stream's events. */
export type Entity = { name: string; tag?: string | undefined };

/**
 * What an event of a type does to the entity of its stream: the first event of a stream creates it, later ones change or
 * remove it. `fields`: what it sets, from the data of the same name.
 */
export type Effect = { effect: 'create' | 'change' | 'remove'; fields?: readonly (keyof Entity)[] };

/** What the page shows for an empty log: a request that creates an entity, a path of the API and a JSON body. */
type Create = { path: string; body: string };

/** The kind of entity that the log is about, and texts of the page. */
export type EntityType = {
  title: string;
  /** The command line of the app, such as `bin/app`. */
  command: string;
  streams: StreamNames;
  /** A regular expression for the names of streams, with the groups user and id, and the flag u. */
  pattern: string;
  /** Effects by event type; other types have none. */
  events: Record<string, Effect>;
  create: Create;
};

/** What the page knows of an entity type: data, so that browsers need no code of the app. */
export type PageData = Pick<EntityType, 'title' | 'command' | 'pattern' | 'events' | 'create'> & {
  noun: string;
};
