import { hasSqliteCode, isDamage, SQLITE } from '@event-sourced/node/files';
import type { OpenFile } from '../disk/walThread.ts';
import type { Position } from '../eventStore.ts';
import type { StubRow } from './overwrite.ts';

// The protocol between the embedded log and its writer thread.

/**
 * When the thread has started, it has opened the log. It sends a CommitReply after each transaction.
 * `walCheckpoint`: another thread has run the WAL checkpoint that was due; events appended in the meantime remain.
 * `scrub`: the next step of removing bytes of erased events; true if the log has none, false if another step must follow.
 */
export type WriterOperations = {
  commit: (batch: AppendBatch) => void;
  erase: (erasure: ErasureRows) => void;
  walCheckpoint: () => void;
  scrub: () => boolean;
};

/** The stubs and the records of an erasure. */
export type ErasureRows = AppendBatch & { stubs: StubRow[] };

/** An append: ID, stream, expected revision, type, and data and metadata as JSON text. */
export type AppendRow = [string, string, bigint, string, string, string];

/** The position of the new event; `repeated`: the position of the same event, which was appended before. */
export type AppendResult = bigint | { repeated: bigint } | { wrongRevision: true } | { rejected: string };

/** Appends of one event loop turn, or 16 of them, in order. */
export type AppendBatch = { appends: AppendRow[]; recordedAt: string };

/**
 * The reply to the appends of one transaction, in the order of the requests.
 * `results`: the appends are committed and on disk, after this number of `seconds`.
 * `rolledBack`: none of the `count` appends is in the log. `erased`: the positions of the records of an erasure; or
 * `notErased`: why the erasure was rolled back. `fatal`: durability can no longer be guaranteed, neither for
 * these appends nor for later ones. `damaged` follows a reply: the log is damaged. `walCheckpointDue`: for this file.
 */
export type CommitReply =
  | { results: AppendResult[]; seconds: number }
  | { count: number; rolledBack: string }
  | { erased: Position[] }
  | { notErased: string }
  | { fatal: string }
  | { damaged: string }
  | { walCheckpointDue: OpenFile };

/** The reply to an error that ends all appends; none for other errors. */
export function endingReplies(error: unknown): CommitReply[] {
  const { message } = error as Error;
  if (hasSqliteCode(error, SQLITE.IOERR_FSYNC, SQLITE.IOERR_DIR_FSYNC))
    return [{ fatal: `fsync failed; durability cannot be guaranteed: ${message}` }];
  return isDamage(error) ? [{ damaged: message }] : [];
}
