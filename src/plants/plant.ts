import type { PlantEvent } from './events.ts';

// The fold of a plant's stream. It also runs in browsers, on the audit page: import neither Node modules nor typebox.

export type Plant = { user: string; id: string; name: string; tag?: string | undefined };

/** The event types, and whether each one starts its stream. */
export const EVENT_TYPES = { PlantCreated: { isFirst: true } };

/** Whether this event type occurs at this revision of a plant's stream. */
export function isPlantEvent(type: string, revision: bigint): type is PlantEvent['type'] {
  if (!Object.hasOwn(EVENT_TYPES, type)) return false;
  return EVENT_TYPES[type as PlantEvent['type']].isFirst === (revision === 0n);
}

/** Applies one event of its stream to a plant; undefined if the plant does not exist. */
export function evolve(_plant: Plant | undefined, { type, data }: PlantEvent): Plant | undefined {
  switch (type) {
    case 'PlantCreated':
      return data;
  }
}
