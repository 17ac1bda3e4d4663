import { expect, test } from 'vitest';
import { Duplicates } from '../../src/monitor/duplicates.ts';

const event = (id: string, stream: string, revision = 0n) => ({
  id,
  stream,
  revision,
  type: 'PlantCreated',
  data: {},
  metadata: {},
});

/** What the second pass finds in these events, by their numbers from 1. */
function duplicatesIn(events: readonly ReturnType<typeof event>[]) {
  const duplicates = new Duplicates();
  for (const one of events) duplicates.add(one);
  const problems = events.map((one, i) => duplicates.problem(one, i + 1));
  return { duplicates, found: problems.filter((problem) => problem !== undefined) };
}

test('events with other IDs and revisions are no duplicates', () => {
  const { duplicates, found } = duplicatesIn([event('a', 's'), event('b', 's', 1n), event('s', 'a')]);
  expect(duplicates.hasCandidates).toBe(false);
  expect(found).toEqual([]);
});

test('the ID, or the stream and revision, of an earlier event are found, each time', () => {
  const { found } = duplicatesIn([event('a', 's'), event('a', 't'), event('b', 's'), event('a', 's')]);
  expect(found).toEqual([
    'its ID is also that of event 1',
    'revision 0 of its stream is also event 1',
    'its ID is also that of event 1',
  ]);
});

test('so many are compared that memory is bounded, and it is known that there are more', () => {
  const events = Array.from({ length: 20_002 }, (_, i) => event(`${i % 10_001}`, `${i}`));
  const { duplicates, found } = duplicatesIn(events);
  expect(found).toHaveLength(10_000);
  expect(duplicates.isIncomplete).toBe(true);
});
