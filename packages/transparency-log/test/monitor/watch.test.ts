import { expect, test } from 'vitest';
import { parseWatched, watchedLine } from '../../src/monitor/watch.ts';
import { entryOf } from './fakeLog.ts';

const lineOf = (watched: string, entry: string): string | undefined =>
  watchedLine(Buffer.from(entry), parseWatched(watched));

test('an event is watched by the text of a member of its data', () => {
  expect(lineOf('user=alice', entryOf(1))).toBe(`${entryOf(1)}\n`);
  expect(lineOf('name=a=b', entryOf(1, { name: 'a=b' }))).toBe(`${entryOf(1, { name: 'a=b' })}\n`);
  for (const other of ['user=alic', 'user=', 'constructor=alice', 'length=1'])
    expect(lineOf(other, entryOf(1))).toBeUndefined();
  expect(lineOf('user=alice', '{"x":1}')).toBeUndefined();
  for (const malformed of ['user', '=alice'])
    expect(() => parseWatched(malformed)).toThrow(/^--watch must be/);
});

test('characters that a terminal may interpret are escaped, and the JSON stays the same', () => {
  const name = 'a\u009b2J\u202e\u2028\u{e0001}\u001b\n🌱';
  const line = lineOf('user=alice', entryOf(1, { name })) as string;
  expect(line).toMatch(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*\n$/u);
  expect(JSON.parse(line).data.name).toBe(name);
});
