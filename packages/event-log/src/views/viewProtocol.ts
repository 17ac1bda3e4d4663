import { type ReadTo, START } from '../eventStore.ts';
import type { Table } from './table.ts';
import type { ViewCheckpoint } from './view.ts';

// The messages between a view and the thread that writes its file.

export const NO_CHECKPOINT: ViewCheckpoint = { logId: '', position: START, eventId: '' };

/** A row: the values that the format's `insert` takes. */
export type Row = readonly (string | bigint | Uint8Array | null)[];

export type ThreadData = { file: string; table: Table };

/**
 * `rows` are kept by the thread until `save` writes them together with a checkpoint, and how far the log was read. `reset` empties the view,
 * which from now on belongs to the log with this ID. `discard` removes the damaged file. What has an ID gets a reply with it.
 */
export type Request = { rows: Row[] } | { close: true } | (WriteRequest & { id?: number });
export type WriteRequest =
  | { save: ViewCheckpoint; readTo: ReadTo | undefined }
  | { reset: string }
  | { discard: true };

/** `failed`: nothing has changed. `damaged`: the file and the rows that were not saved are gone. */
export type WriteResult = { failed?: Error; damaged?: string };

/** What the file had when it was opened; `replaced` is why it was replaced by an empty one. */
export type Opened = {
  checkpoint: ViewCheckpoint;
  readTo: ReadTo | undefined;
  replaced: string | undefined;
};

/**
 * `opened` has ID 0. `unsound` is no reply: the file, which is verified while it is used, is damaged, and is not
 * removed yet.
 */
export type Reply = (WriteResult & { id?: number | undefined; opened?: Opened }) | { unsound: string };
