import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { logWith } from '@event-sourced/testing/logs';
import { describe, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { pageOf } from '../support/damage.ts';

const fileIn = (dir: string): string => join(dir, 'log.db');

/** Changes a byte of an entry of an index, in its first page. */
function damageIndex(dir: string, index: string, entry: string): void {
  const { rootpage, size } = pageOf(fileIn(dir), index);
  const bytes = readFileSync(fileIn(dir));
  const at = bytes.indexOf(entry, (rootpage - 1) * size);
  expect(Math.ceil(at / size)).toBe(rootpage);
  bytes[at] = (bytes[at] as number) + 1;
  writeFileSync(fileIn(dir), bytes);
}

const problemsIn = (stdout: string): string[] =>
  JSON.parse(stdout).problems.map(({ problem }: { problem: string }) => problem);

describe('verify reports in the log file', () => {
  test('a damaged index', async () => {
    const DATA_DIR = logWith({ events: 12 });
    damageIndex(DATA_DIR, 'sqlite_autoindex_events_2', 'plant-bob/2');
    const { code, stdout } = await runCli(['verify', '--json'], { DATA_DIR });
    expect(code).toBe(1);
    expect(problemsIn(stdout)).toContain(
      'the log is damaged: row 2 missing from index sqlite_autoindex_events_2',
    );
    expect(JSON.parse(stdout).problemCount).toBe(problemsIn(stdout).length);
  });

  const DROP = 'DROP TRIGGER events_are_never_deleted;';
  const ALLOWING = `CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
    WHEN old.stream <> 'plant-bob/2' BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END`;

  test.for<[what: string, sql: string, ...problems: string[]]>([
    [
      'missing append-only triggers',
      `${DROP} DROP TRIGGER events_are_never_updated`,
      'the log has no trigger events_are_never_updated',
      'the log has no trigger events_are_never_deleted',
    ],
    ['an altered trigger', `${DROP} ${ALLOWING}`, 'the log has an altered trigger events_are_never_deleted'],
    [
      'unknown triggers and indexes',
      `CREATE TRIGGER quiet BEFORE INSERT ON EVENTS BEGIN SELECT RAISE(IGNORE); END;
        CREATE UNIQUE INDEX narrow ON Events (type, position);
        CREATE TABLE other (id); CREATE TRIGGER forge AFTER INSERT ON other BEGIN DELETE FROM events; END;
        CREATE TABLE backup (id); CREATE TRIGGER hide AFTER INSERT ON backup BEGIN DELETE FROM events; END`,
      'the log has an unknown trigger quiet',
      'the log has an unknown index narrow',
      'the log has an unknown trigger forge',
      'the log has an unknown trigger hide',
    ],
  ])('%s', async ([, sql, ...expected]) => {
    const DATA_DIR = logWith({ events: 12 });
    using db = new DatabaseSync(fileIn(DATA_DIR));
    db.exec(sql);
    const { code, stdout } = await runCli(['verify', '--json'], { DATA_DIR });
    expect({ code, problems: problemsIn(stdout) }).toEqual({ code: 1, problems: expected });
  });
});

test('verify names additions of other programs to the log file, which are not problems', async () => {
  const DATA_DIR = logWith({ events: 12 });
  using db = new DatabaseSync(fileIn(DATA_DIR));
  // The tables of Litestream and ANALYZE.
  db.exec(
    'CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); CREATE TABLE _litestream_lock (id INTEGER)',
  );
  db.exec('ANALYZE');
  const { code, stdout } = await runCli(['verify', '--json'], { DATA_DIR });
  const added = ['table _litestream_seq', 'table _litestream_lock', 'table sqlite_stat1'];
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    problems: [],
    notices: expect.arrayContaining(added.map((name) => `the file has a ${name} of another program`)),
  });
  const { stdout: text } = await runCli(['verify'], { DATA_DIR });
  expect(text).toContain('notice    the file has a table _litestream_seq of another program\n');
});
