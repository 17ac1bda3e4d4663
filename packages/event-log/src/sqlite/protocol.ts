import type { OpenFile } from '../disk/checkpointThread.ts';
import { hasSqliteCode, isDamage, SQLITE } from '../disk/sqlite.ts';

// Between the embedded log and the thread that writes it.

/**
 * The thread has opened the log when it has started, and sends a CommitReply after each transaction.
 * `checkpoint`: a checkpoint that was due was run elsewhere; what was appended meanwhile is left.
 */
export type WriterOperations = { commit: (batch: AppendBatch) => void; checkpoint: () => void };

/** An append: id, stream, expected revision, type, and data and metadata as JSON text. */
export type AppendRequest = [string, string, bigint, string, string, string];

/** The position of the new event; `repeated`: of the same event, which was appended before. */
export type AppendResult = bigint | { repeated: bigint } | { wrongRevision: true } | { rejected: string };

/** Appends of one event loop turn, or 16 of them, in order. */
export type AppendBatch = { appends: AppendRequest[]; recordedAt: string };

/**
 * The reply to the appends of one transaction, in the order in which they were requested.
 * `results`: they are committed and on the disk, after this number of `seconds`.
 * `rolledBack`: none of `count` appends is in the log. `fatal`: durability cannot be guaranteed any more, neither of
 * these appends nor of later ones. `damaged` follows a reply: the log is damaged. `checkpointDue`: of this file.
 */
export type CommitReply =
  | { results: AppendResult[]; seconds: number }
  | { count: number; rolledBack: string }
  | { fatal: string }
  | { damaged: string }
  | { checkpointDue: OpenFile };

/** The reply to an error after which nothing can be appended; none for others. */
export function endingReplies(error: unknown): CommitReply[] {
  const { message } = error as Error;
  if (hasSqliteCode(error, SQLITE.IOERR_FSYNC, SQLITE.IOERR_DIR_FSYNC))
    return [{ fatal: `fsync failed; durability cannot be guaranteed: ${message}` }];
  return isDamage(error) ? [{ damaged: message }] : [];
}
