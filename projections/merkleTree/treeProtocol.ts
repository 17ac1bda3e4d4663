import type { LogLocation } from '../../src/stores.ts';
import type { Progress } from '../follow.ts';
import type { SavedTree } from './treeView.ts';

// The messages between the Merkle tree's thread and the main thread.

export type TreeThreadData = { file: string; location: LogLocation };

/** `discard`: the file turned out to be damaged, for this reason. After `close` the thread ends. */
export type TreeRequest = { close: true } | { discard: string };

/**
 * `saved`: the tree in its file, first as it was found. `progress`: it catches up with the log; at `end` it has.
 * `reset`: it does not belong to the log, or is damaged, and will start again from the beginning; it has been rebuilt
 * so often since the thread started.
 */
export type TreeMessage =
  | { saved: SavedTree }
  | { reset: true; rebuilds: number }
  | { progress: Progress }
  | { log: { level: LogLevel; fields: object; message: string } };

export type LogLevel = 'info' | 'warn' | 'error' | 'fatal';

export const isTreeMessage = (message: object): message is TreeMessage =>
  ['saved', 'reset', 'progress', 'log'].some((name) => name in message);
