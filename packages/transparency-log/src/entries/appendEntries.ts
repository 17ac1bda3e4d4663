import { type EventLog, type Position, readToEnd, START } from '@event-sourced/event-log';
import { entryLeafHash, MerkleTree, type TreeHead } from '@event-sourced/tlog';
import { eventEntry } from '../digest/eventEntry.ts';

type Range = {
  /** The position of the tree's last event. */
  after: Position;
  /** The final size of the tree; by default the size of the log. */
  size?: number | undefined;
  signal: AbortSignal;
};

/** Appends the next events of a log for hashing to their tree. Resolves with the position of the last event. */
export async function appendEntries(
  tree: MerkleTree,
  log: Pick<EventLog, 'lastPosition' | 'readAll'>,
  { after, size = Number.POSITIVE_INFINITY, signal }: Range,
): Promise<Position> {
  let position = after;
  for await (const { events } of readToEnd(log, { after, signal })) {
    for (const event of events.slice(0, size - tree.size)) {
      tree.append(entryLeafHash(eventEntry(event)));
      ({ position } = event);
    }
    if (tree.size >= size) break;
  }
  signal.throwIfAborted();
  return position;
}

/** The root of the first `size` events of a log, or of all events. @throws Error if the log has fewer events */
export async function rootOfLog(log: EventLog, signal: AbortSignal, size?: number): Promise<TreeHead> {
  const tree = new MerkleTree();
  await appendEntries(tree, log, { after: START, size, signal });
  assertHasSize(tree, size);
  return { size: tree.size, root: tree.root() };
}

/** @throws Error if a tree has fewer events than `size` */
function assertHasSize(tree: { size: number }, size = 0): void {
  if (size > tree.size) throw new Error(`the log has ${tree.size} events, fewer than ${size}`);
}
