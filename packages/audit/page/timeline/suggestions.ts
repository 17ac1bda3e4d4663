import type { Entities } from '../entities.ts';
import type { ShownEvent } from '../events.ts';
import type { TimelineState } from './timelineState.ts';

const MAX_SUGGESTIONS = 200;
type Suggestions = Pick<TimelineState, 'users' | 'types'>;

/** The users and types that the filters suggest, with those of these events. */
export function withSuggestions(
  { users, types }: Suggestions,
  events: readonly ShownEvent[],
  entities: Entities,
): Suggestions {
  const join = (known: ReadonlySet<string>, more: readonly string[]): ReadonlySet<string> =>
    known.size < MAX_SUGGESTIONS ? new Set([...known, ...more]) : known;
  const found = events.flatMap(({ subject }) => entities.parse(subject)?.user ?? []);
  const added = events.map(({ type }) => type);
  return { users: join(users, found), types: join(types, added) };
}
