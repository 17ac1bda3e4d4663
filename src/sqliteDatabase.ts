import { statSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';

/** SQLite's result codes (https://sqlite.org/rescode.html) that mean something here. */
export const SQLITE = {
  BUSY: 5,
  CORRUPT: 11,
  CONSTRAINT: 19,
  NOTADB: 26,
  IOERR_FSYNC: 1034,
  IOERR_DIR_FSYNC: 1290,
} as const;

/** Whether SQLite failed with one of these codes; a primary code stands for all its extended ones. */
export function failedWith(error: unknown, ...codes: number[]): boolean {
  if (!(error instanceof Error && 'errcode' in error)) return false;
  const code = Number(error.errcode);
  return codes.includes(code) || codes.includes(code & 0xff);
}

/** The marks that tell what a database file is: whose, and in which version. */
export function marksOf(db: DatabaseSync): { application: number; version: number } {
  const { application_id: application } = db.prepare('PRAGMA application_id').get() as {
    application_id: number;
  };
  const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number };
  return { application, version };
}

/** Bytes; 0 where there is no such file. */
export function fileSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
