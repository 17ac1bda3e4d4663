import { DatabaseSync } from 'node:sqlite';
import { openReadOnly } from '../disk/sqlite.ts';
import { isThreadOf, serve, Thread, threadData } from '../threads/thread.ts';
import { unlessAborted } from '../time/sleep.ts';
import { findings, SCHEMA } from './file.ts';
import { BACKUP_TABLE } from './logBackup.ts';

// SQLite's integrity_check blocks its thread, so it runs on a thread of its own: this file is both sides.

const MAX_FINDINGS = 100;

/**
 * What contradicts the format of the log file, also while a server writes to it: damage, by SQLite's integrity_check,
 * and tables or triggers that are missing or altered. Its thread has ended when `resources` are disposed of, unless
 * the signal has aborted. @throws Error if the file cannot be read
 */
export async function logFileProblems(
  file: string,
  { signal, resources }: { signal: AbortSignal; resources: AsyncDisposableStack },
): Promise<string[]> {
  const thread = new Thread<never, string[]>(new URL(import.meta.url), { data: file });
  resources.defer(async () => {
    await unlessAborted(thread.terminate(), signal); // SQLite completes its check first, which may take seconds
  });
  const problems = await unlessAborted(thread.started, signal);
  signal.throwIfAborted();
  return problems as string[];
}

function findProblems(file: string): string[] {
  using db = openReadOnly(file);
  const damage = findings(db, 'integrity_check', MAX_FINDINGS);
  return [...schemaProblems(db), ...damage.map((finding) => `the log is damaged: ${finding}`)];
}

/** Whatever differs from the schema of a new log or of a backup, among it the triggers that make the log append-only. */
function schemaProblems(db: DatabaseSync): string[] {
  using expected = new DatabaseSync(':memory:');
  expected.exec(SCHEMA);
  const [own, found] = [objectsIn(expected), objectsIn(db)];
  const problems = [...own].flatMap(([name, sql]) => {
    if (!found.has(name)) return [`the log has no ${name}`];
    return found.get(name) === sql ? [] : [`the log has an altered ${name}`];
  });
  const unknown = [...found.keys()].filter((name) => !own.has(name) && name !== `table ${BACKUP_TABLE}`);
  return [...problems, ...unknown.map((name) => `the log has an unknown ${name}`)];
}

/** The tables, indexes and triggers of a database, as in "table events", and their SQL. */
function objectsIn(db: DatabaseSync): Map<string, string> {
  const rows = db.prepare('SELECT type, name, sql FROM sqlite_schema').all() as Record<
    string,
    string | null
  >[];
  return new Map(rows.map(({ type, name, sql }) => [`${type} ${name}`, (sql ?? '').replaceAll(/\s+/g, ' ')]));
}

if (isThreadOf(import.meta.url)) serve(undefined, findProblems(threadData()));
