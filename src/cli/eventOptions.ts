import { EventFilter, type EventQuery, eventQuery } from '@event-sourced/event-log/replay';
import { Compile } from 'typebox/compile';
import { PLANT_STREAMS } from '../domain.ts';

/** The filters of events, as text. */
const nameOf = (filter: string): string => `--${filter}`;
export const PlantEventQuery = eventQuery(PLANT_STREAMS, { nameOf, time: 'RFC 3339' });
const isQuery = Compile(PlantEventQuery);

/** Parses the filters among the options of a command. @throws Error that names the option and the rule */
export function parseEventOptions(options: EventQuery): EventFilter {
  if (!isQuery.Check(options)) {
    const [error] = isQuery.Errors(options);
    throw new Error(`--${error?.instancePath.slice(1)} ${error?.message}.`);
  }
  return new EventFilter(options, PLANT_STREAMS, nameOf);
}
