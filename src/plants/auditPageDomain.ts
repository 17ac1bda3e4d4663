import type { PlantEvent } from './events.ts';
import { evolve, isPlantEvent, type Plant } from './plant.ts';
import { parsePlantStream } from './stream.ts';

type Event = { type: string; revision: bigint; data: unknown };

/** What the audit page shows of plants. Browsers load this module, too. */
export const domain = {
  title: 'Plant store',
  noun: 'plant',
  receipts: 'proofs/plants',
  create: { path: 'plants', body: '{"id":1,"name":"Fern","tag":"indoor"}' },
  parseStream: parsePlantStream,
  evolve(plant: Plant | undefined, { type, revision, data }: Event): Plant | undefined {
    return isPlantEvent(type, revision) ? evolve(plant, { type, data } as PlantEvent) : plant;
  },
};
