import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { humanReadable } from '../../src/cli/humanReadable.ts';

const time = '2026-03-01T12:00:00.000Z';
const shown = (line: object): string => stripVTControlCharacters(humanReadable(JSON.stringify(line)));

test('a log line is its time, level and message, and its other fields below', () => {
  expect(shown({ level: 30, time, signal: 'SIGTERM', rows: { of: [1, 2] }, msg: 'closing' })).toBe(
    `${time} INFO: closing\n    signal: "SIGTERM"\n    rows: {"of":[1,2]}\n`,
  );
});

test('an error is its stack, and its other members', () => {
  const err = {
    type: 'Error',
    message: 'disk full',
    stack: 'Error: disk full\n    at write',
    code: 'ENOSPC',
  };
  expect(shown({ level: 50, time, err, msg: 'request failed' })).toBe(
    `${time} ERROR: request failed\n    Error: disk full\n        at write\n    code: "ENOSPC"\n`,
  );
});

test('control characters are escaped', () => {
  const text = 'a\x1b[2J\u202eb\nc';
  expect(shown({ level: 40, time, user: text, msg: text })).toMatch(/^[\x20-\x7e]+\n {4}[\x20-\x7e]+\n$/);
});
