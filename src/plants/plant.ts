import type { PlantEvent } from './events.ts';

// The fold of a plant's stream. It also runs in browsers, on the audit page: import nothing of Node or typebox.

export type Plant = { user: string; id: string; name: string; tag?: string | undefined };

/** The types of events, and whether each begins its stream. */
export const EVENT_TYPES = { PlantCreated: { isFirst: true } };

/** Whether events of this type occur at this revision of a plant's stream. */
export function isPlantEvent(type: string, revision: bigint): type is PlantEvent['type'] {
  if (!Object.hasOwn(EVENT_TYPES, type)) return false;
  return EVENT_TYPES[type as PlantEvent['type']].isFirst === (revision === 0n);
}

/** A plant after one more event of its stream; undefined if there is none. */
export function evolve(_plant: Plant | undefined, { type, data }: PlantEvent): Plant | undefined {
  switch (type) {
    case 'PlantCreated':
      return data;
  }
}
