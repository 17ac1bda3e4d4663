/** The user and the ID in the name of an entity's stream. */
export type EntityId = { user: string; id: string };

/** What the events of a stream make, as far as the page shows it. */
export type Entity = { name: string; tag?: string | undefined };

/** What the page knows of the app whose events it shows. It is exported by a module that runs in browsers. */
export type Domain = {
  /** The name of the app. */
  title: string;
  /** What an entity is called; with an s, several of them. */
  noun: string;
  /** The path of receipts in the API, to which the page adds user and ID. */
  receipts: string;
  /** Undefined if it is not the stream of an entity. */
  parseStream(stream: string): EntityId | undefined;
  /** An entity after one more event of its stream; undefined if there is none. */
  evolve(
    entity: Entity | undefined,
    event: { type: string; revision: bigint; data: unknown },
  ): Entity | undefined;
};
