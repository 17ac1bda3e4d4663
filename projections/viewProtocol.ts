import { type ReadTo, START } from '../src/eventStore/eventStore.ts';
import type { Table } from './table.ts';
import type { ViewCheckpoint } from './view.ts';

// The messages between a view and the thread that writes its file.

export const NO_CHECKPOINT: ViewCheckpoint = { logId: '', position: START, eventId: '' };

/** A row: the values that the format's `insert` takes. */
export type Row = readonly (string | bigint | Uint8Array | null)[];

export type ThreadData = { file: string; table: Table };

/**
 * `rows` are kept by the thread until `save` writes them together with a checkpoint, and how far the log was read. `reset` empties the view,
 * which from now on belongs to the log with this ID. `discard` removes the damaged file. `rows` and `close` get
 * no reply, the others get theirs in order.
 */
export type Request = { rows: Row[] } | { close: true } | AnsweredRequest;
export type AnsweredRequest =
  | { save: ViewCheckpoint; readTo: ReadTo | undefined }
  | { reset: string }
  | { discard: true };

/**
 * `opened` comes first; `replaced` is why the file was replaced by an empty one. `failed`: nothing has
 * changed. `damaged`: the file and the rows that were not saved are gone. `unsound` is no reply: the file, which is
 * verified while it is used, is damaged, and is not removed yet.
 */
export type Reply =
  | { opened: ViewCheckpoint; readTo: ReadTo | undefined; replaced: string | undefined }
  | { done: true }
  | { failed: Error }
  | { damaged: string }
  | { unsound: string };

export const isReply = (message: object): message is Reply =>
  ['opened', 'done', 'failed', 'damaged', 'unsound'].some((name) => name in message);
