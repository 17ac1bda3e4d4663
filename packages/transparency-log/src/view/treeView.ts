import type { DatabaseSync } from 'node:sqlite';
import {
  assertReached,
  type EventLog,
  LogReplaced,
  type Position,
  type RecordedEvent,
} from '@event-sourced/event-log';
import type { WalThread } from '@event-sourced/event-log/disk';
import { type Bookmark, View } from '@event-sourced/event-log/views';
import { TILE_WIDTH, type Tile, type TreeHead, toHex } from '@event-sourced/tlog';
import { eventEntry } from '../digest/eventEntry.ts';
import { MERKLE_TREE, TreeTiles } from './treeTiles.ts';

/** The Merkle tree of the log with this ID, up to a position. */
export type LogHead = TreeHead & { logId: string; position: Position };

/** The Merkle tree over all events of the log, including events that other views skip. */
export class MerkleTreeView extends View<TreeTiles> {
  /** Opens the tree in a file. @throws Error with a message for the operator */
  static open(file: string, walThread?: WalThread): MerkleTreeView {
    return new MerkleTreeView(file, MERKLE_TREE, walThread);
  }

  get head(): LogHead {
    const { logId, position } = this.progress;
    return { logId, position, ...this.use(({ head }) => head) };
  }

  /** Whether the tree has a tile. */
  has(tile: Tile): boolean {
    return this.use((tiles) => tiles.has(tile));
  }

  /** The first hashes of a tile, verified up to the root. @throws ViewBehind, also if the tree lacks the tile */
  readonly readTile = (tile: Tile): Uint8Array => this.use((tiles) => tiles.hashes(tile));

  /** The first `width` entries of a tile of level 0, of 32 bytes each; verified like `readTile`. @throws ViewBehind */
  readEntries(index: number, width: number): Uint8Array {
    return this.use((tiles) => tiles.entries(index, width));
  }

  /** The entry at an index, from 0. @throws ViewBehind, also if the tree lacks it */
  entryAt(index: number): string {
    return this.use((tiles) => tiles.entryAt(index));
  }

  /** The index of an entry whose event is at this position, which the tree has reached. @throws ViewBehind */
  find(entry: string, position: Position): number | undefined {
    return this.use((tiles) => tiles.find(entry, position));
  }

  /** The position before the first event of a tile of level 0. No hash covers it: compare the events. @throws ViewBehind */
  tileStart(index: number): Position {
    return this.use((tiles) => tiles.tileStart(index));
  }

  /** Compares the last tile of level 0 with the events of the log. */
  override async mismatch(log: EventLog): Promise<string | undefined> {
    const { position } = this.progress;
    const last = this.use(({ lastEntries }) => lastEntries);
    if (!last) return undefined;
    const entries: string[] = [];
    try {
      for (let after = last.startsAfter as Position; after < position && entries.length <= last.width; ) {
        const page = await log.readAll({ after, limit: TILE_WIDTH });
        for (const event of page.events) if (event.position <= position) entries.push(eventEntry(event));
        after = page.position;
        if (page.isEnd) assertReached(position, after);
      }
    } catch (error) {
      if (!(error instanceof LogReplaced)) throw error; // EventStoreDB has no event at the start of the tile
    }
    if (entries.join('') === toHex(last.hashes)) return undefined;
    return `its last ${last.width} entries do not match the log`;
  }

  protected override load(db: DatabaseSync, { position }: Bookmark): TreeTiles {
    return new TreeTiles(db, position);
  }

  /** Every event has an entry, so `skip` has no effect. */
  override apply(events: readonly RecordedEvent[]): void {
    super.apply(events, NONE);
  }

  protected override fold(event: RecordedEvent, tiles: TreeTiles): void {
    tiles.append(eventEntry(event), event.position);
  }

  protected override write(tiles: TreeTiles): void {
    tiles.write();
  }
}

const NONE: ReadonlySet<string> = new Set();
