// Between the embedded log and the thread that writes it.

/** The thread has opened the log when it has started, and sends a CommitReply after each transaction. */
export type WriterOperations = { commit: (batch: AppendBatch) => void };

/** An append: id, stream, expected revision, type, and data and metadata as JSON text. */
export type AppendRequest = [string, string, bigint, string, string, string];

/** `position` is that of the event itself if it was appended before. */
export type AppendResult =
  | { position: bigint; revision: bigint }
  | { wrongRevision: true }
  | { rejected: string };

/** The first position of the new events, and the results of the other appends by index. */
export type Committed = { first: bigint; others: Map<number, AppendResult> };

/** Appends of one event loop turn, or 16 of them, in order. */
export type AppendBatch = { appends: AppendRequest[]; recordedAt: string };

export type CommittedReply = { count: number; seconds: number } & Committed;

/**
 * The reply to the appends of one transaction: `count` of them, in the order in which they were requested.
 * `first`: they are committed and on the disk, at consecutive positions from here on, but for `others`, after so
 * many `seconds`.
 * `rolledBack`: nothing of them is in the log. `fatal`: durability cannot be guaranteed any more, neither of
 * these appends nor of later ones. `damaged` follows a reply: the log is damaged.
 */
export type CommitReply =
  | CommittedReply
  | { count: number; rolledBack: string }
  | { fatal: string }
  | { damaged: string };
