import { expect, test } from 'vitest';
import { EventCheck } from '../../src/monitor/eventCheck.ts';
import { entryOf } from './fakeLog.ts';

test('an event is in the future only if it is at the time when it is checked', () => {
  let now = '2026-01-01T00:10:00Z';
  const check = new EventCheck(
    () => new Date(now),
    undefined,
    ({ metadata }) => {
      const { occurredAt } = metadata as { occurredAt: string };
      return { occurredAt, time: Date.parse(occurredAt) };
    },
  );
  expect(check.problem(Buffer.from(entryOf(10)))).toBeUndefined();
  expect(check.problem(Buffer.from(entryOf(16)))).toContain('it occurs in the future');
  now = '2026-01-01T00:30:00Z';
  expect(check.problem(Buffer.from(entryOf(34)))).toBeUndefined();
  expect(check.problem(Buffer.from(entryOf(36)))).toContain('it occurs in the future');
});
