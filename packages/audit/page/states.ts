import type { Entity } from '../src/entityType.ts';
import type { Entities } from './entities.ts';

export type Change = { id: string; type: string; revision: bigint; data: unknown; time: number };

/** An entity with the times of its first and its last event. */
export type State = { id: string; entity: Entity; since: number; changed: number };

/** The entities at a time, in order of creation. */
export function statesAt(
  changes: readonly Change[],
  time: number,
  entities: Pick<Entities, 'evolve'>,
): State[] {
  const states = new Map<string, State>();
  for (const change of changes) {
    if (!(change.time <= time)) continue;
    const { id } = change;
    const before = states.get(id);
    const entity = entities.evolve(before?.entity, change);
    if (entity) states.set(id, { id, entity, since: before?.since ?? change.time, changed: change.time });
    else states.delete(id);
  }
  return [...states.values()];
}
