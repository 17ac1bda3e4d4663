/** The SQLite result codes that are handled (https://sqlite.org/rescode.html). */
export const SQLITE = {
  ERROR: 1,
  BUSY: 5,
  NOMEM: 7,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  CONSTRAINT: 19,
  NOTADB: 26,
  IOERR_SHORT_READ: 522,
  IOERR_FSYNC: 1034,
  IOERR_DIR_FSYNC: 1290,
} as const;

/** Whether SQLite reported an error or its cause: the file is damaged, or temporarily unreadable. */
export const isSqliteError = (error: unknown): boolean =>
  error instanceof Error && ('errcode' in error || isSqliteError(error.cause));

/** Whether an error has one of SQLite's result codes; a primary code includes its extended codes. */
export function hasSqliteCode(error: unknown, ...codes: number[]): boolean {
  if (!(error instanceof Error && 'errcode' in error)) return false;
  const code = Number(error.errcode);
  return codes.includes(code) || codes.includes(code & 0xff);
}
