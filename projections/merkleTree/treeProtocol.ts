import type { Position } from '../../src/eventStore/eventStore.ts';
import type { LogLocation } from '../../src/stores.ts';
import type { Progress } from '../follow.ts';
import type { SavedTree } from './treeView.ts';

// The messages between the Merkle tree's thread and the main thread.

export type TreeThreadData = { file: string; location: LogLocation };

/**
 * `discard`: the file turned out to be damaged, for this reason, after so many resets; if there was another one
 * meanwhile, it is not the same file. After `close` the thread ends.
 */
export type TreeRequest = { close: true } | { discard: string; resets: number };

/**
 * `saved`: the tree in its file, first as it was found. `read`: how far the log was read. `progress`: it catches up with the log; at `end` it has.
 * `reset`: it does not belong to the log, or is damaged, and will start again from the beginning; since the thread
 * started, so many of these were sent, and it has been rebuilt so often.
 */
export type TreeMessage =
  | { saved: SavedTree }
  | { read: ReadLog }
  | { reset: true; resets: number; rebuilds: number }
  | { progress: Progress }
  | { log: { level: LogLevel; fields: object; message: string } };

/** The log was read up to `to`; the last event up to there is at `last`, and in the tree once it is saved. */
export type ReadLog = { to: Position; last: Position };

export type LogLevel = 'info' | 'warn' | 'error' | 'fatal';

export const isTreeMessage = (message: object): message is TreeMessage =>
  ['saved', 'read', 'reset', 'progress', 'log'].some((name) => name in message);
