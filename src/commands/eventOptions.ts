import { Compile } from 'typebox/compile';
import { EventQuery, type Filter, filterOf } from '../audit/eventFilter.ts';

const isQuery = Compile(EventQuery);

/** Options of the command line as a filter of events. @throws Error that names the option and the rule */
export function filterOfOptions(options: EventQuery): Filter {
  const query = Object.fromEntries(
    Object.entries(options).filter(([key, value]) => key in EventQuery.properties && value !== undefined),
  );
  if (!isQuery.Check(query)) {
    const [fault] = isQuery.Errors(query);
    throw new Error(`--${fault?.instancePath.slice(1)} ${fault?.message}.`);
  }
  return filterOf(query, (part) => `--${part}`);
}
