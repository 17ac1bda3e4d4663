import { expect, test } from 'vitest';
import { newEventId } from '../src/eventId.ts';

test('an event ID is a UUID version 7 that starts with the time in milliseconds', () => {
  const now = new Date('2026-03-01T12:00:00.123Z');
  const id = newEventId(now);
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const time = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  expect(time).toBe(now.getTime());
});

test('20 000 event IDs are unique', () => {
  expect(new Set(Array.from({ length: 20_000 }, () => newEventId(new Date()))).size).toBe(20_000);
});
