import { type EventLog, type Position, readToEnd } from '@event-sourced/event-log';
import { leafHash, type MerkleTree } from '../merkle/merkleTree.ts';
import { leafText } from './leaf.ts';

type Range = {
  /** The position of the tree's last event. */
  after: Position;
  /** The final size of the tree; by default the size of the log. */
  size?: number | undefined;
  signal: AbortSignal;
};

/** Appends the next events of a log for hashing to their tree. Resolves with the position of the last event. */
export async function appendLeaves(
  tree: MerkleTree,
  log: Pick<EventLog, 'lastPosition' | 'readAll'>,
  { after, size = Number.POSITIVE_INFINITY, signal }: Range,
): Promise<Position> {
  let position = after;
  for await (const { events } of readToEnd(log, { after, signal })) {
    for (const event of events.slice(0, size - tree.size)) {
      tree.append(leafHash(leafText(event).text));
      ({ position } = event);
    }
    if (tree.size >= size) break;
  }
  signal.throwIfAborted();
  return position;
}
