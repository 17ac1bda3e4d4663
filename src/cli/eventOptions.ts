import { EventFilter, type EventQuery } from '@event-sourced/event-log/replay';
import { Compile } from 'typebox/compile';
import { PLANT_STREAMS, PlantEventQuery } from '../domain.ts';

const isQuery = Compile(PlantEventQuery);

/** Parses the filter options of a command. @throws Error that names the option and the rule */
export function parseEventOptions(options: EventQuery): EventFilter {
  const query = Object.fromEntries(
    Object.entries(options).filter(
      ([key, value]) => key in PlantEventQuery.properties && value !== undefined,
    ),
  );
  if (!isQuery.Check(query)) {
    const [error] = isQuery.Errors(query);
    throw new Error(`--${error?.instancePath.slice(1)} ${error?.message}.`);
  }
  return new EventFilter(query, PLANT_STREAMS, (filter) => `--${filter}`);
}
