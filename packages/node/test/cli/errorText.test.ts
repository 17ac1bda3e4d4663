import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { errorText } from '../../src/cli/errorText.ts';

function thrownBy(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

const sql = (text: string, file = ':memory:', readOnly = false): Error => {
  using db = new DatabaseSync(file, { readOnly });
  return thrownBy(() => db.exec(text));
};

test.each<[string, (file: string) => Error]>([
  ['for the user', () => new Error('the user must be a name')],
  ['of the system', (file) => thrownBy(() => readFileSync(file))],
  ['of a file that cannot be opened', (file) => thrownBy(() => new DatabaseSync(`${file}/missing`))],
  [
    'of a file that is no database',
    (file) => {
      writeFileSync(file, 'no database');
      return sql('SELECT 1 FROM sqlite_schema', file);
    },
  ],
  [
    'of a file that cannot be written',
    (file) => {
      new DatabaseSync(file).close();
      return sql('CREATE TABLE a (b)', file, true);
    },
  ],
  ['of a full disk', () => sql('PRAGMA max_page_count = 1; CREATE TABLE a (b); CREATE TABLE c (d)')],
])('an error %s is its message, also as a cause', (_, fail) => {
  const error = fail(join(tempDir(), 'file'));
  expect(errorText(error)).toBe(error.message);
  expect(errorText(new Error('cannot use it', { cause: error }))).toBe('cannot use it');
});

test.each([
  ['of the language', () => thrownBy(() => (undefined as unknown as { a: string }).a)],
  ['of SQL', () => sql('CREATE TABEL a (b)')],
  ['of a call', () => thrownBy(() => new DatabaseSync(':memory:', { open: false }).exec('SELECT 1'))],
])('an error %s has its stack, also as a cause', (_, fail) => {
  const error = fail();
  expect(errorText(error)).toBe(error.stack);
  expect(errorText(new Error('cannot use it', { cause: error }))).toBe(`cannot use it\n${error.stack}`);
});
