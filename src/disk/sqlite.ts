import { statSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';

/** SQLite's result codes (https://sqlite.org/rescode.html), as far as they are handled. */
export const SQLITE = {
  BUSY: 5,
  CORRUPT: 11,
  CONSTRAINT: 19,
  NOTADB: 26,
  IOERR_FSYNC: 1034,
  IOERR_DIR_FSYNC: 1290,
} as const;

/** Whether an error has one of SQLite's result codes; a primary code includes its extended codes. */
export function hasSqliteCode(error: unknown, ...codes: number[]): boolean {
  if (!(error instanceof Error && 'errcode' in error)) return false;
  const code = Number(error.errcode);
  return codes.includes(code) || codes.includes(code & 0xff);
}

/** What a database file's header says about its application and format version. */
export function readHeader(db: DatabaseSync): { applicationId: number; version: number } {
  const { application_id } = db.prepare('PRAGMA application_id').get() as { application_id: number };
  const { user_version } = db.prepare('PRAGMA user_version').get() as { user_version: number };
  return { applicationId: application_id, version: user_version };
}

/** Size in bytes; 0 if the file does not exist. */
export function fileSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
