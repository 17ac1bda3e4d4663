/** What the events of a stream make, as far as the page shows it. */
export type Entity = { name: string; tag?: string | undefined };

/** What the page knows of the app whose events it shows. It is exported by a module that runs in browsers. */
export type Domain = {
  title: string;
  /** What an entity is called; with an s, several of them. */
  noun: string;
  /** The path of receipts in the API, to which the page adds user and ID. */
  receipts: string;
  /** The request that creates an entity, shown for an empty log: a path in the API, and JSON. */
  create: { path: string; body: string };
  /** The user and the ID in a stream's name; undefined if it is not the stream of an entity. */
  parseStream(stream: string): { user: string; id: string } | undefined;
  /** An entity after one more event of its stream; undefined if there is none. */
  evolve(
    entity: Entity | undefined,
    event: { type: string; revision: bigint; data: unknown },
  ): Entity | undefined;
};
