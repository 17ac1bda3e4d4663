import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { openLogFile } from '../../../src/eventStore/sqlite/file.ts';
import { startService } from '../../support/service.ts';
import { tempDir } from '../../support/tempDir.ts';

/** The one line with which a start with this data directory fails. */
async function refusal(DATA_DIR: string): Promise<string> {
  const outcome = await startService({ DATA_DIR }).catch((error: Error) => error);
  expect(outcome).toBeInstanceOf(Error);
  const { message } = outcome as Error;
  expect(message).toMatch(/^[^\n]+$/);
  return message;
}

describe('a log.db', () => {
  test.for([
    ['that is garbage', (file: string) => writeFileSync(file, Buffer.alloc(10_000, 'garbage'))],
    ['that is a line of text', (file: string) => writeFileSync(file, 'hello\n')],
    [
      'that is another SQLite database',
      (file: string) => {
        using db = new DatabaseSync(file);
        db.exec('CREATE TABLE music (title TEXT); INSERT INTO music VALUES (1)');
      },
    ],
    [
      'that is another SQLite database in WAL mode',
      (file: string) => {
        using db = new DatabaseSync(file);
        db.exec('PRAGMA journal_mode = WAL; CREATE TABLE music (title TEXT); INSERT INTO music VALUES (1)');
      },
    ],
    [
      'with the application ID of another program, without tables',
      (file: string) => {
        using db = new DatabaseSync(file);
        db.exec('PRAGMA application_id = 1234');
      },
    ],
    [
      'of a newer version',
      (file: string) => {
        using db = openLogFile(file);
        db.exec('PRAGMA user_version = 2');
      },
    ],
    [
      'with damage in its first page',
      (file: string) => {
        openLogFile(file).close();
        const bytes = readFileSync(file);
        writeFileSync(file, bytes.fill(0xff, 100, 200));
      },
    ],
  ] as const)('%s is reported with its path and not changed', async ([, make]) => {
    const dir = tempDir();
    const file = join(dir, 'log.db');
    make(file);
    const before = readFileSync(file);
    expect(await refusal(dir)).toContain(file);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test('that is a directory is reported with its path', async () => {
    const dir = tempDir();
    mkdirSync(join(dir, 'log.db'));
    expect(await refusal(dir)).toContain(join(dir, 'log.db'));
  });

  test('that is missing beside its write-ahead log makes a start fail, until it is restored', async () => {
    const [dir, elsewhere] = [tempDir(), tempDir()];
    const { as } = await startService({ DATA_DIR: elsewhere });
    await as('alice').create(1, { name: 'Fern' });
    const file = join(dir, 'log.db');
    copyFileSync(join(elsewhere, 'log.db-wal'), `${file}-wal`); // as after a crash
    const wal = readFileSync(`${file}-wal`);
    expect(await refusal(dir)).toContain(file);
    expect(readFileSync(`${file}-wal`).equals(wal)).toBe(true);
    copyFileSync(join(elsewhere, 'log.db'), file);
    const again = await startService({ DATA_DIR: dir });
    expect(await again.as('alice').list()).toEqual([{ name: 'Fern' }]);
  });

  test('of a newer version is reported with both versions', async () => {
    const dir = tempDir();
    const db = openLogFile(join(dir, 'log.db'));
    db.exec('PRAGMA user_version = 7');
    db.close();
    expect(await refusal(dir)).toMatch(/version 7\b.*\bup to 1\b/);
  });
});
