import { join } from 'node:path';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import type { EventLog } from '../../../event-log/src/eventStore.ts';
import { openLogReader } from '../../../event-log/src/sqlite/read.ts';
import { everything } from '../../../event-log/src/testing/contract.ts';
import { Follower } from '../../../event-log/src/views/follow.ts';
import { MTH } from '../../../tlog/test/merkle/rfc9162.ts';
import { eventEntry } from '../../src/digest/eventEntry.ts';
import { MerkleTreeView } from '../../src/view/treeView.ts';

export const treeIn = (dir: string): string => join(dir, 'merkleTree.db');

/** The tree in a directory, which follows the log there, or another one, until the end of the test. */
export function followTree(dir: string, log: EventLog = logIn(dir)) {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const view = MerkleTreeView.open(treeIn(dir));
  const follower = new Follower({ store: log, view, keepMismatchAs: `${treeIn(dir)}.mismatch`, logger });
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= follower.stop().then(() => view.close()));
  onTestFinished(close);
  return { view, follower, close, logged: () => lines.join('') };
}

export function logIn(dir: string): EventLog {
  const log = openLogReader(join(dir, 'log.db'), { forHashing: true });
  onTestFinished(() => log.close());
  return log;
}

/** The root by definition, of the first `size` events. */
export async function rootOf(log: EventLog, size: number): Promise<string> {
  return MTH((await everything(log)).slice(0, size).map((event) => Buffer.from(eventEntry(event), 'hex')));
}
