import type { PlantEvent } from './events.ts';
import { evolve, type Plant } from './plant.ts';
import { canHaveRevision, PLANT_STREAMS } from './stream.ts';

type Event = { type: string; revision: bigint; data: unknown };

/** What the audit package shows of plants. This module also runs in browsers. */
export const entityType = {
  title: 'Plant store',
  command: 'bin/plant-store',
  streams: PLANT_STREAMS,
  create: { path: 'plants', body: '{"id":1,"name":"Fern","tag":"indoor"}' },
  evolve(plant: Plant | undefined, { type, revision, data }: Event): Plant | undefined {
    return canHaveRevision(type, revision) ? evolve(plant, { type, data } as PlantEvent) : plant;
  },
};
