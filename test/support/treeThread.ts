import { join } from 'node:path';
import pino from 'pino';
import { expect, onTestFinished } from 'vitest';
import type { EventLog, Position } from '../../packages/event-log/src/eventStore.ts';
import { openLogReader } from '../../packages/event-log/src/sqlite/read.ts';
import { everything } from '../../packages/event-log/src/testing/contract.ts';
import { leafText } from '../../packages/transparency-log/src/entries/leaf.ts';
import { TreeThread } from '../../packages/transparency-log/src/view/treeThread.ts';
import { MTH } from '../../packages/transparency-log/test/merkle/rfc9162.ts';

/** The module that opens logs. */
const STORES = new URL('../../src/stores.ts', import.meta.url).href;

export const treeIn = (dir: string): string => join(dir, 'merkleTree.db');

/** The tree of the log in a directory, or of EventStoreDB, until the end of the test. */
export function startTree(dir: string, url?: string) {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const eventStoreDb =
    url === undefined ? {} : { eventStoreDb: { url, timeoutMs: 10_000, setting: 'the test' } };
  const location = { dataDir: dir, ...eventStoreDb };
  const tree = new TreeThread({
    file: treeIn(dir),
    log: { module: STORES, location },
    logger,
    onProgress: () => {},
  });
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= tree.close());
  onTestFinished(close);
  return { tree, close, logged: () => lines.join('') };
}

/** Resolves when the tree can be read. */
export const ready = (tree: TreeThread) => expect.poll(() => tree.notReady).toBeUndefined();
/** Resolves when the tree is saved up to a position. */
export const saved = (tree: TreeThread, position: Position) =>
  expect.poll(() => tree.notReady ?? tree.current.position).toBe(position);

export function logIn(dir: string): EventLog {
  const log = openLogReader(join(dir, 'log.db'), { raw: true });
  onTestFinished(() => log.close());
  return log;
}

/** The root by definition, of the first `size` events. */
export async function rootOf(log: EventLog, size: number): Promise<string> {
  return MTH((await everything(log)).slice(0, size).map((event) => leafText(event).text));
}
