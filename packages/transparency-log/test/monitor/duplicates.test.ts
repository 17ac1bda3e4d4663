import { expect, test } from 'vitest';
import { Duplicates } from '../../src/monitor/duplicates.ts';

test('so many are compared that memory is bounded, and it is known that there are more', () => {
  const events = Array.from({ length: 20_002 }, (_, i) => ({
    id: `${'x'.repeat((i % 10_001) % 200)}${i % 10_001}`,
    stream: `${'x'.repeat(i % 200)}${i}`,
    revision: 0n,
    type: 'PlantCreated',
    data: {},
    metadata: {},
  }));
  const duplicates = new Duplicates();
  for (const event of events) duplicates.add(event);
  const problems = events.map((event, i) => duplicates.problem(event, i + 1));
  expect(problems.filter((problem) => problem !== undefined)).toHaveLength(10_000);
  expect(duplicates.isIncomplete).toBe(true);
});
