import { type EventLog, type RecordedEvent, StoreUnavailable } from '@event-sourced/event-log';
import type { Turn } from '@event-sourced/event-log/time';
import type { Follower } from '@event-sourced/event-log/views';
import { formatEntryBundle } from '../notes/entryBundle.ts';
import type { MerkleTreeView } from '../view/treeView.ts';
import { leafText } from './leaf.ts';

/** The tree, and the log that it follows, read raw. */
export type TreeAndLog = Readonly<{
  tree: Pick<Follower<MerkleTreeView>, 'ready' | 'reached'>;
  log: EventLog;
}>;

/** A page of the largest events has 4 MiB, and other requests get their turn. */
const PAGE_SIZE = 64;

export const entryOf = (event: RecordedEvent): Buffer => Buffer.from(leafText(event).text);

/**
 * The first `width` entries of a tile of level 0 that the tree has, each after its length in two bytes
 * (https://c2sp.org/tlog-tiles), page by page, each after a `turn`. They are read from the log, so
 * hashing them compares the log with the tree. @throws StoreUnavailable, ViewBehind
 */
export async function* readEntries(
  { tree, log }: TreeAndLog,
  { index, width, turn }: { index: number; width: number; turn: Turn },
): AsyncGenerator<Buffer> {
  let after = tree.ready.startOf(index);
  for (let missing = width; missing > 0; ) {
    await turn();
    const { events, position, isEnd } = await log.readAll({ after, limit: PAGE_SIZE });
    const wanted = events.slice(0, missing);
    if (wanted.length > 0) yield formatEntryBundle(wanted.map(entryOf));
    missing -= wanted.length;
    if (isEnd && missing > 0) throw new StoreUnavailable('the log has fewer events than its Merkle tree');
    after = position;
  }
}
