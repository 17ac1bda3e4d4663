import { PLANT_STREAMS } from './stream.ts';

/** What the audit package shows of plants, as data: a test compares it with `evolve` and `parsePlantStream`. */
export const entityType = {
  title: 'Plant store',
  command: 'bin/plant-store',
  streams: PLANT_STREAMS,
  pattern: '^plant-(?<user>[^\\p{Cc}\\p{Cs}]{1,255})/(?<id>0|-?[1-9]\\d{0,18})$',
  events: { PlantCreated: { effect: 'create', fields: ['name', 'tag'] } },
  create: { path: 'plants', body: '{"id":1,"name":"Fern","tag":"indoor"}' },
} as const;
