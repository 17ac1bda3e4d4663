import { expect, test } from 'vitest';
import { newId } from '../src/newId.ts';

test('an id is a UUID of version 7 that begins with the time in milliseconds', () => {
  const now = new Date('2026-03-01T12:00:00.123Z');
  const id = newId(now);
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const time = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  expect(time).toBe(now.getTime());
});

test('a hundred thousand ids are all different', () => {
  expect(new Set(Array.from({ length: 100_000 }, () => newId(new Date()))).size).toBe(100_000);
});
