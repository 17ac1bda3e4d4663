import { expect, test } from 'vitest';
import { isUser } from '../../src/plants/user.ts';

test.each(['🪴', '-', '/', '%', ' ', 'a'.repeat(255), `${'🪴'.repeat(127)}a`])(
  '%j is a valid user',
  (user) => {
    expect(isUser(user)).toBe(true);
  },
);

test.each([
  ['empty text', ''],
  ['256 characters', 'a'.repeat(256)],
  ['256 UTF-16 code units', '🪴'.repeat(128)],
  ['an unpaired surrogate', 'alice\ud83e'],
  ['a NUL', 'alice\0'],
  ['a line feed', 'alice\nbob'],
  ['a DEL', 'alice\x7f'],
  ['a C1 control character', 'alice\x85'],
])('%s is not a valid user', (_, user) => {
  expect(isUser(user)).toBe(false);
});
