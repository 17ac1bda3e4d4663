import { EventFilter, type EventQuery, eventQuery } from '@event-sourced/event-log/replay';
import { Compile } from 'typebox/compile';
import { PLANT_STREAMS } from '../plants/stream.ts';

const filterName = (filter: string): string => `--${filter}`;
export const PlantEventQuery = eventQuery(PLANT_STREAMS, { filterName, time: 'RFC 3339' });
const isQuery = Compile(PlantEventQuery);

/** Parses the filters among a command's options. @throws Error that names the invalid options and their rules */
export function parseEventOptions(options: EventQuery): EventFilter {
  if (!isQuery.Check(options)) {
    const problems = isQuery.Errors(options);
    const texts = problems.map(({ instancePath, message }) => `--${instancePath.slice(1)} ${message}`);
    throw new Error(`${texts.join('; ')}.`);
  }
  return new EventFilter(options, PLANT_STREAMS, filterName);
}
