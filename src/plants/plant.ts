import type { PlantEvent } from './events.ts';

// The fold of a plant's stream.

export type Plant = { user: string; id: string; name: string; tag?: string | undefined };

/** Applies one event of its stream to a plant; undefined if the plant does not exist. */
export function evolve(plant: Plant | undefined, { type: kind, data }: PlantEvent): Plant | undefined {
  switch (kind) {
    case 'PlantCreated':
      return data;
    default:
      kind satisfies never; // each known type needs a case
      return plant;
  }
}
