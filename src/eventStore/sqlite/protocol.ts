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

/** One transaction: appends that arrived together share it, and its fsync. */
export type CommitRequest = { appends: AppendRequest[]; recordedAt: string };

/**
 * `results`: committed and on the disk. `rolledBack`: nothing of the transaction is in the log.
 * `fatal`: durability cannot be guaranteed any more, neither of this transaction nor of a later one.
 * `damaged` follows a reply: the log is damaged.
 */
export type CommitReply =
  | { results: AppendResult[] }
  | { rolledBack: string }
  | { fatal: string }
  | { damaged: string };

export const isCommitReply = (message: object | string): message is CommitReply =>
  typeof message === 'object' &&
  ['results', 'rolledBack', 'fatal', 'damaged'].some((name) => name in message);
