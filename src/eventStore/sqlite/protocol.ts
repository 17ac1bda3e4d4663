// The messages between the embedded log and the thread that writes it.

/** An append: id, stream, expected revision, type, and data and metadata as JSON text. */
export type AppendRequest = [string, string, bigint, string, string, string];

export type AppendResult =
  | { position: bigint; revision: bigint; isDuplicate: boolean }
  | { wrongRevision: true }
  | { rejected: string };

/** One transaction: appends that arrived together share it, and its fsync. */
export type CommitRequest = { appends: AppendRequest[]; recordedAt: string };

/**
 * `results`: committed and on the disk. `rolledBack`: nothing of the transaction is in the log.
 * `fsyncFailed`: durability cannot be guaranteed any more, neither of this transaction nor of a later one.
 */
export type CommitReply = { results: AppendResult[] } | { rolledBack: string } | { fsyncFailed: string };
