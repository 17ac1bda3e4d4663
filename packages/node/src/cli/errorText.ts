import { hasSqliteCode, SQLITE } from '../files/sqliteCode.ts';
import { printable } from './printable.ts';

const FAULTS = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError];
/** What SQLite reports of files, disks and other processes. Its other errors are about the SQL and how it is called. */
const { BUSY, NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB } = SQLITE;
const OF_FILES = [BUSY, NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB];

/**
 * The fault of the code that is an error or its cause: an error of the language, or one that Node or a library has a code
 * for, such as ERR_SQLITE_ERROR. Errors of the system have other codes, such as ENOENT; those for the user have none.
 */
function faultIn(error: unknown): Error | undefined {
  if (!(error instanceof Error)) return undefined;
  const hasCode = 'code' in error && /ERR_/.test(String(error.code)) && !hasSqliteCode(error, ...OF_FILES);
  return hasCode || FAULTS.some((type) => error instanceof type) ? error : faultIn(error.cause);
}

/** What to print of an error that ends a command: its message; of a fault of the code also the stack. */
export function errorText(error: Error): string {
  const fault = faultIn(error);
  const texts = fault === error ? [] : [error.message];
  if (fault) texts.push(fault.stack ?? fault.message);
  return texts.join('\n').split('\n').map(printable).join('\n');
}
