import { DatabaseSync } from 'node:sqlite';
import { openReadOnly } from '@event-sourced/node/files';
import { finish, isThreadFor, Thread, threadData } from '@event-sourced/node/threads';
import { unlessAborted } from '@event-sourced/node/time';
import type { Position, Problem } from '../eventStore.ts';
import { causeOf, findDamage, SCHEMA } from './file.ts';

// SQLite's integrity_check blocks its thread, so it runs on its own thread. This file has the code of both threads.

const MAX_FINDINGS = 100;

/**
 * `problems`: damage found by SQLite's integrity_check, revisions that no append has written, missing or altered tables
 * and triggers, and objects that may act on the log. `notices`: tables, indexes and views that other programs have
 * added.
 */
type Findings = { problems: Problem[]; notices: string[] };

/**
 * Checks the log file; a server may be writing to it. Disposing of `resources` waits for the thread, unless the signal
 * has aborted. @throws Error if the file cannot be read
 */
export async function checkLogFile(
  file: string,
  { signal, resources }: { signal: AbortSignal; resources: AsyncDisposableStack },
): Promise<Findings> {
  const thread = new Thread<never, Findings>(new URL(import.meta.url), { data: file });
  resources.defer(async () => {
    await unlessAborted(thread.terminate(), signal); // SQLite first completes its check, which may take seconds
  });
  const found = await unlessAborted(thread.started, signal);
  signal.throwIfAborted();
  return found as Findings;
}

function check(file: string): Findings {
  const damage = findDamage(file, 'integrity_check', MAX_FINDINGS);
  try {
    using db = openReadOnly(file);
    const { problems, notices } = checkSchema(db);
    // Damaged indexes may lack revisions, or be unreadable.
    const found = damage.length > 0 ? damage.map(toProblem) : wrongRevisions(db);
    return { problems: [...problems.map((problem) => ({ problem })), ...found], notices };
  } catch (error) {
    throw causeOf(error, file);
  }
}

const toProblem = (finding: string): Problem => ({ problem: `the log is damaged: ${finding}` });

/** The events that do not continue their streams: revisions count from 0, in log order. Reads the index of streams. */
function wrongRevisions(db: DatabaseSync): Problem[] {
  const statement = db.prepare(`
    SELECT position, revision FROM (
      SELECT position, revision, lag(revision, 1, -1) OVER stream AS before, lag(position) OVER stream AS after
      FROM events WINDOW stream AS (PARTITION BY stream ORDER BY revision))
    WHERE revision <> before + 1 OR position < after
    LIMIT ${MAX_FINDINGS}`);
  statement.setReadBigInts(true);
  return (statement.all() as { position: Position; revision: bigint }[]).map(({ position, revision }) => ({
    position,
    problem:
      revision < 0n ? 'revisions start at 0' : `revision ${revision - 1n} of its stream is not before it`,
  }));
}

/** Compares the schema, with the triggers that make the log append-only, with that of a new log. */
function checkSchema(db: DatabaseSync): { problems: string[]; notices: string[] } {
  using expected = new DatabaseSync(':memory:');
  expected.exec(SCHEMA);
  const [own, found] = [objectsIn(expected), objectsIn(db)];
  const tables = new Set([...own.values()].map(({ table }) => table));
  const problems = [...own].flatMap(([name, { sql }]) => {
    if (!found.has(name)) return [`the log has no ${name}`];
    return found.get(name)?.sql === sql ? [] : [`the log has an altered ${name}`];
  });
  const notices: string[] = [];
  for (const [name, { table }] of found) {
    const isTrigger = name.startsWith('trigger ');
    if (own.has(name)) continue;
    // A trigger of any table may change the log; SQLite keeps the case of a table's name.
    if (tables.has(table.toLowerCase()) || isTrigger) problems.push(`the log has an unknown ${name}`);
    else notices.push(`the file has a ${name} of another program`);
  }
  return { problems, notices };
}

type SchemaObject = { table: string; sql: string };

/** The tables, indexes, triggers and views of a database with their SQL, by names such as "table events". */
function objectsIn(db: DatabaseSync): Map<string, SchemaObject> {
  const rows = db.prepare('SELECT type, name, tbl_name, sql FROM sqlite_schema').all();
  return new Map(
    (rows as Record<string, string | null>[]).map(({ type, name, tbl_name, sql }) => [
      `${type} ${name}`,
      { table: tbl_name ?? '', sql: (sql ?? '').replaceAll(/\s+/g, ' ') },
    ]),
  );
}

if (isThreadFor(import.meta.url)) finish(check(threadData()));
