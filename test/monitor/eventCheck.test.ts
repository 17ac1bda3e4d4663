import { expect, test } from 'vitest';
import { leafText } from '../../src/audit/leaf.ts';
import { EventCheck } from '../../src/monitor/eventCheck.ts';

const MINUTE_MS = 60_000;

/** The entry of a plant that was created so many minutes after 1970. */
function entryAt(minutes: number): Buffer {
  const { text } = leafText({
    id: `01956d2b-7a00-7000-8000-${String(minutes).padStart(12, '0')}`,
    stream: `plant-alice/${minutes}`,
    revision: 0n,
    type: 'PlantCreated',
    data: { id: `${minutes}`, user: 'alice', name: 'Fern' },
    metadata: {
      $correlationId: 'c',
      schemaVersion: 1,
      occurredAt: new Date(minutes * MINUTE_MS).toISOString(),
    },
  });
  return Buffer.from(text);
}

test('an event is in the future only if it is at the time when it is checked', () => {
  let minutes = 10;
  const check = new EventCheck(() => new Date(minutes * MINUTE_MS), undefined);
  expect(check.problem(entryAt(10))).toBeUndefined();
  expect(check.problem(entryAt(16))).toContain('it occurs in the future');
  minutes = 30;
  expect(check.problem(entryAt(34))).toBeUndefined();
  expect(check.problem(entryAt(36))).toContain('it occurs in the future');
});
