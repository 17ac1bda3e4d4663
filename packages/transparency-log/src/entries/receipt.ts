import type { EventLog, Position, RecordedEvent } from '@event-sourced/event-log';
import { EVENTS_ERASED, parseRecord } from '@event-sourced/event-log/erasure';
import { type Checkpoint, NotInTree, proveInclusion, TILE_WIDTH } from '@event-sourced/tlog';
import { eventEntry } from '../digest/eventEntry.ts';
import { eventText } from '../digest/eventText.ts';
import type { MerkleTreeView } from '../view/treeView.ts';

/** The log no longer has an event that is in its Merkle tree: the log or the tree's file was altered. */
export class LogContradictsTree extends Error {
  override readonly name = 'LogContradictsTree';
  constructor(position: Position) {
    super(`the log contradicts its Merkle tree, or its last checkpoint, at position ${position}: run verify`);
  }
}

type Tree = Pick<MerkleTreeView, 'find' | 'readTile'>;
/** Resolves with a checkpoint of more than `index` entries, which the tree extends. */
type Covering = (index: number) => Checkpoint | Promise<Checkpoint>;

/**
 * The text of a proof that the log has an event, whose position the tree must have reached. Its extra data is the text of the
 * event. @throws LogContradictsTree, ViewBehind; errors of `covering`
 */
export async function issueReceipt(event: RecordedEvent, tree: Tree, covering: Covering): Promise<string> {
  const entry = eventEntry(event);
  const index = tree.find(entry, event.position);
  if (index === undefined) throw new LogContradictsTree(event.position);
  const checkpoint = await covering(index);
  const extra = Buffer.from(eventText(event).text);
  try {
    return await proveInclusion({ entry, extra, index }, checkpoint, tree.readTile);
  } catch (error) {
    throw error instanceof NotInTree ? new LogContradictsTree(event.position) : error;
  }
}

/** The record of erased events at an index; undefined if there is none. @throws LogContradictsTree, ViewBehind, StoreUnavailable */
export async function recordAt(
  index: number,
  tree: Pick<MerkleTreeView, 'has' | 'tileStart' | 'entryAt'>,
  log: Pick<EventLog, 'readAll'>,
): Promise<RecordedEvent | undefined> {
  const tile = Math.floor(index / TILE_WIDTH);
  const before = index % TILE_WIDTH;
  if (!tree.has({ level: 0, index: tile, width: before + 1 })) return undefined;
  let after = tree.tileStart(tile);
  for (let missing = before + 1; ; ) {
    const { events, position, isEnd } = await log.readAll({ after, limit: missing });
    missing -= events.length;
    after = position;
    const event = events.at(-1);
    if (missing > 0 && !isEnd) continue;
    if (missing > 0 || !event || eventEntry(event) !== tree.entryAt(index))
      throw new LogContradictsTree(after);
    return event.type === EVENTS_ERASED && parseRecord(event.data) ? event : undefined;
  }
}
