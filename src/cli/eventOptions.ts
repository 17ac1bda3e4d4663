import { Compile } from 'typebox/compile';
import { type EventFilter, EventQuery, parseFilter } from '../audit/eventFilter.ts';

const isQuery = Compile(EventQuery);

/** Parses the filter options of a command. @throws Error that names the option and the rule */
export function parseEventOptions(options: EventQuery): EventFilter {
  const query = Object.fromEntries(
    Object.entries(options).filter(([key, value]) => key in EventQuery.properties && value !== undefined),
  );
  if (!isQuery.Check(query)) {
    const [error] = isQuery.Errors(query);
    throw new Error(`--${error?.instancePath.slice(1)} ${error?.message}.`);
  }
  return parseFilter(query, (filter) => `--${filter}`);
}
