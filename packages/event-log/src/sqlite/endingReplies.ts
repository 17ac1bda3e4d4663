import { hasSqliteCode, isDamage, SQLITE } from '../disk/sqlite.ts';
import type { CommitReply } from './protocol.ts';

/** The reply to an error after which nothing can be appended; none for others. */
export function endingReplies(error: unknown): CommitReply[] {
  const { message } = error as Error;
  if (hasSqliteCode(error, SQLITE.IOERR_FSYNC, SQLITE.IOERR_DIR_FSYNC))
    return [{ fatal: `fsync failed; durability cannot be guaranteed: ${message}` }];
  return isDamage(error) ? [{ damaged: message }] : [];
}
