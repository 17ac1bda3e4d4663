import type { Effect, Entity, PageData } from '../src/entityType.ts';

type EventOfEntity = { type: string; revision: bigint; data: unknown };

/** The entity type of the log, and what its events do. */
export class Entities {
  readonly data: PageData;
  readonly noun: string;
  readonly #pattern: RegExp;
  readonly #effects: ReadonlyMap<string, Effect>;

  constructor(data: PageData) {
    this.data = data;
    this.noun = data.noun;
    this.#pattern = new RegExp(data.pattern, 'u');
    this.#effects = new Map(Object.entries(data.events));
  }

  /** The user and the ID in the name of a stream; undefined for other streams. */
  parse(stream: string): { user: string; id: string } | undefined {
    const { user, id } = this.#pattern.exec(stream)?.groups ?? {};
    return user === undefined || id === undefined ? undefined : { user, id };
  }

  /** Applies one event of its stream to an entity; undefined if the entity does not exist. */
  evolve(entity: Entity | undefined, { type, revision, data }: EventOfEntity): Entity | undefined {
    const { effect, fields = [] } = this.#effects.get(type) ?? {};
    if (effect === undefined || (effect === 'create') !== (revision === 0n)) return entity;
    if (effect === 'remove') return undefined;
    const given = Object(data) as Entity;
    const set = Object.fromEntries(fields.filter((name) => name in given).map((name) => [name, given[name]]));
    return effect === 'create' || entity ? ({ ...entity, ...set } as Entity) : undefined;
  }
}
