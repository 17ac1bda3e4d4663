// The messages between the embedded log and the thread that writes it. Others may arrive too: under
// `node --watch` each thread also sends the names of its modules.

/** The thread has opened the log. */
export const READY = 'ready';

/** An append: id, stream, expected revision, type, and data and metadata as JSON text. */
export type AppendRequest = [string, string, bigint, string, string, string];

export type AppendResult =
  | { position: bigint; revision: bigint; isDuplicate: boolean }
  | { wrongRevision: true }
  | { rejected: string };

/** Appends of one event loop turn, in order. */
export type AppendBatch = { appends: AppendRequest[]; recordedAt: string };

/**
 * The reply to the appends of one transaction: `count` of them, in the order in which they were requested.
 * `first`: they are committed and on the disk, at consecutive positions from here on, except those in
 * `others`, which are results by index. `rolledBack`: nothing of them is in the log. `fatal`: durability
 * cannot be guaranteed any more, neither of these appends nor of later ones. `damaged` follows a reply: the
 * log is damaged.
 */
export type CommitReply =
  | { count: number; first: bigint; others: Map<number, AppendResult> }
  | { count: number; rolledBack: string }
  | { fatal: string }
  | { damaged: string };

export const isCommitReply = (message: object | string): message is CommitReply =>
  typeof message === 'object' && ['first', 'rolledBack', 'fatal', 'damaged'].some((name) => name in message);
