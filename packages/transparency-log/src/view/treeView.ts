import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  assertReached,
  type EventLog,
  LogReplaced,
  type Position,
  type RecordedEvent,
  START,
} from '@event-sourced/event-log';
import {
  type CheckpointThread,
  DamagedFile,
  databaseFile,
  isSqliteError,
  openReadOnly,
} from '@event-sourced/event-log/disk';
import {
  readViewCheckpoint,
  View,
  ViewBehind,
  type ViewCheckpoint,
  type ViewDefinition,
} from '@event-sourced/event-log/views';
import { LRUCache } from 'lru-cache';
import { leafOf } from '../entries/leaf.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, tilePath, tileRoot, tileWidth } from '../merkle/tiles.ts';
import { type StoredTile, TileWriter } from '../merkle/tileWriter.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { EMPTY_TREE } from '../notes/checkpoint.ts';

/** The Merkle tree of the log with this ID, up to a position. */
export type LogHead = TreeHead & { logId: string; position: Position };

/** The file of the tree in a data directory. */
export const merkleTreeFile = (dataDir: string): string => databaseFile(dataDir, 'merkleTree.db');

/** The file: a row for each tile, about 34 bytes per event. `number` is the tile's index in its level. */
export const MERKLE_TREE: ViewDefinition = {
  name: 'merkleTree',
  title: 'Merkle tree',
  applicationId: 0x50547265, // 'PTre' in ASCII
  version: 1,
  cacheKiB: 2_048, // tiles are appended
  onErasure: 'keep', // a stub has the same leaf
  table: 'tiles',
  schema: `
    CREATE TABLE tiles (
      level        INTEGER NOT NULL,
      number       INTEGER NOT NULL,
      hashes       BLOB    NOT NULL,
      starts_after INTEGER,
      PRIMARY KEY (level, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tiles_by_position ON tiles (starts_after) WHERE level = 0;`,
};
/** The tree head of the last commit: the last tiles must have this root. */
const HEAD_SCHEMA = 'CREATE TABLE IF NOT EXISTS head (size INTEGER PRIMARY KEY, root TEXT NOT NULL) STRICT';

/** The number of verified full tiles of 8 KiB in the cache. */
const MAX_CACHED = 64;

/**
 * The Merkle tree over all events of the log, including events that other views skip. The root is computed from the
 * last tile of each level, which are in memory. Full tiles are rows; each one is verified up to the root when it is
 * read.
 */
export class MerkleTreeView extends View<State> {
  /** Opens the tree in a file. @throws Error with a message for the operator */
  static open(file: string, checkpointer?: CheckpointThread): MerkleTreeView {
    return new MerkleTreeView(file, MERKLE_TREE, checkpointer);
  }

  get head(): LogHead {
    const { logId, position } = this.progress;
    return { logId, position, ...this.use(headOf) };
  }

  /** Whether the tree has a tile. */
  has({ level, index, width }: Tile): boolean {
    return (
      width <=
      tileWidth(
        level,
        index,
        this.use(({ tree }) => tree.size),
      )
    );
  }

  /** The first hashes of a tile, verified up to the root. @throws ViewBehind, also if the tree lacks the tile */
  readTile(tile: Tile): Buffer {
    if (!this.has(tile)) throw new ViewBehind('The Merkle tree is not up to date yet; retry.');
    return this.use((state) => readVerified(tile, state)).subarray(0, tile.width * HASH_BYTES);
  }

  /** The position before the first event of a tile of level 0. No hash covers it: the caller must check the events. */
  tileStart(index: number): Position {
    return this.use(({ tree, statements }) => {
      const row = lastTile(tree, 0, index) ?? (statements.tile.get(0, index) as TileRow | undefined);
      return row?.startsAfter ?? damaged(`tile ${index} of level 0 is missing, or has no position`);
    });
  }

  /** The index of the tile of level 0 with the event at a position, which the tree must have reached. */
  tileIndex(position: Position): number {
    return this.use(({ tree, statements }) => {
      const last = tree.lastTile(0);
      if (last?.startsAfter != null && last.startsAfter < position) return last.index;
      const row = statements.before.get(position) as Pick<TileRow, 'number'> | undefined;
      return Number(row?.number ?? 0n);
    });
  }

  /** Compares the last tile of level 0 with the events of the log. */
  override async mismatch(log: EventLog): Promise<string | undefined> {
    const { position } = this.progress;
    const last = this.use(({ tree }) => tree.lastTile(0));
    if (!last) return undefined;
    const leaves: string[] = [];
    try {
      for (let after = last.startsAfter as Position; after < position && leaves.length <= last.width; ) {
        const page = await log.readAll({ after, limit: TILE_WIDTH });
        for (const event of page.events) if (event.position <= position) leaves.push(leafOf(event));
        after = page.position;
        if (page.isEnd) assertReached(position, after);
      }
    } catch (error) {
      if (!(error instanceof LogReplaced)) throw error; // EventStoreDB has no event at the start of the tile
    }
    if (leaves.join('') === last.hashes.toString('hex')) return undefined;
    return `its last ${last.width} leaves do not match the log`;
  }

  protected override load(db: DatabaseSync, { position }: ViewCheckpoint): State {
    db.exec(HEAD_SCHEMA);
    const statements = prepare(db);
    const tree = new TileWriter(lastTiles(statements), position);
    const saved = statements.head.get() as { size: bigint; root: string } | undefined;
    if (saved && (Number(saved.size) !== tree.size || saved.root !== tree.root()))
      damaged('its last tiles do not match the saved root');
    if ((tree.size === 0) !== (position === START)) damaged('the checkpoint does not match the tiles');
    return { statements, tree, head: undefined, verified: new LRUCache({ max: MAX_CACHED }) };
  }

  /** Every event is a leaf, so `skip` has no effect. */
  override apply(events: readonly RecordedEvent[]): void {
    super.apply(events, NONE);
  }

  protected override fold(event: RecordedEvent, state: State): void {
    state.tree.append(leafOf(event), event.position);
    if (state.tree.size % TILE_WIDTH === 0) insertTiles(state);
  }

  protected override write(state: State): void {
    const { size, root } = headOf(state);
    insertTiles(state);
    state.statements.removeHead.run();
    state.statements.insertHead.run(size, root);
  }
}

/** The tree in memory, and what was read from an open file. */
type State = {
  readonly statements: ReturnType<typeof prepare>;
  readonly tree: TileWriter;
  /** The tree head, computed once for each size. */
  head: TreeHead | undefined;
  readonly verified: LRUCache<string, Buffer>;
};

function headOf(state: State): TreeHead {
  const { tree, head } = state;
  state.head = head?.size === tree.size ? head : { size: tree.size, root: tree.root() };
  return state.head;
}

function insertTiles({ statements, tree }: State): void {
  for (const { level, index, hashes, startsAfter } of tree.takeChanged())
    statements.insert.run(level, index, hashes, startsAfter);
}

/** A tile at its width in the tree: the last one of a level from memory, others verified by the tile above. */
function readVerified({ level, index }: Omit<Tile, 'width'>, state: State): Buffer {
  const { statements, tree, verified } = state;
  const last = lastTile(tree, level, index);
  if (last) return last.hashes;
  const path = tilePath({ level, index, width: TILE_WIDTH });
  const known = verified.get(path);
  if (known) return known;
  const { hashes } = toTile(level, statements.tile.get(level, index) as TileRow | undefined);
  const above = readVerified({ level: level + 1, index: Math.floor(index / TILE_WIDTH) }, state);
  const at = (index % TILE_WIDTH) * HASH_BYTES;
  if (
    hashes.length !== TILE_WIDTH * HASH_BYTES ||
    tileRoot(hashes) !== above.toString('hex', at, at + HASH_BYTES)
  )
    damaged(`${path} does not have its hash in the tile above`);
  verified.set(path, hashes);
  return hashes;
}

function lastTile(tree: TileWriter, level: number, index: number): StoredTile | undefined {
  const last = tree.lastTile(level);
  return last?.index === index ? last : undefined;
}

/** The head of the tree that was saved last in a file; the empty one if the file has no readable tree of this log. */
export async function readSavedHead(file: string, log: EventLog): Promise<TreeHead> {
  try {
    using db = openReadOnly(file);
    const head = db.prepare('SELECT size, root FROM head').get() as TreeHead | undefined;
    const checkpoint = readViewCheckpoint(file);
    const isOfLog =
      checkpoint?.logId === (await log.logId()) && checkpoint.position <= (await log.lastPosition());
    return head && isOfLog ? head : EMPTY_TREE;
  } catch (error) {
    if (isSqliteError(error) || error instanceof DamagedFile) return EMPTY_TREE;
    throw error;
  }
}

const NONE: ReadonlySet<string> = new Set();

function damaged(problem: string): never {
  throw new DamagedFile(problem);
}

type TileRow = { number: bigint; hashes: Uint8Array; startsAfter: Position | null };

/** The last tile of each level; together they must make up a tree. @throws DamagedFile */
function lastTiles({ lastOfLevel, levels }: ReturnType<typeof prepare>): StoredTile[] {
  const last: StoredTile[] = [];
  for (let level = 0; level < Number((levels.get() as { levels: bigint }).levels); level++)
    last.push(toTile(level, lastOfLevel.get(level) as TileRow | undefined));
  const [leaves] = last;
  const size = leaves ? leaves.index * TILE_WIDTH + leaves.width : 0;
  for (let level = 0; last[level] || size >= TILE_WIDTH ** level; level++) {
    const { index = 0, width = 0 } = last[level] ?? {};
    const isLast = width > 0 && index * TILE_WIDTH + width === Math.floor(size / TILE_WIDTH ** level);
    if (!isLast) damaged(`level ${level} does not match a tree of ${size} leaves`);
  }
  return last;
}

/** In a damaged file a column may have any type. @throws DamagedFile */
function toTile(level: number, row: TileRow | undefined): StoredTile {
  if (!(row?.hashes instanceof Uint8Array)) return damaged(`a tile of level ${level} is missing`);
  const { buffer, byteOffset, byteLength } = row.hashes;
  const width = byteLength / HASH_BYTES;
  if (!Number.isInteger(width) || width > TILE_WIDTH) damaged(`a tile of level ${level} has a wrong size`);
  const hashes = Buffer.from(buffer, byteOffset, byteLength);
  return { level, index: Number(row.number), width, hashes, startsAfter: row.startsAfter };
}

function prepare(db: DatabaseSync) {
  const read = (sql: string): StatementSync => {
    const statement = db.prepare(sql);
    statement.setReadBigInts(true);
    return statement;
  };
  const columns = 'SELECT number, hashes, starts_after AS startsAfter FROM tiles';
  return {
    tile: read(`${columns} WHERE level = ? AND number = ?`),
    lastOfLevel: read(`${columns} WHERE level = ? ORDER BY number DESC LIMIT 1`),
    levels: read('SELECT coalesce(max(level) + 1, 0) AS levels FROM tiles'),
    before: read(
      'SELECT number FROM tiles WHERE level = 0 AND starts_after < ? ORDER BY starts_after DESC LIMIT 1',
    ),
    insert: db.prepare(
      'INSERT OR REPLACE INTO tiles (level, number, hashes, starts_after) VALUES (?, ?, ?, ?)',
    ),
    head: read('SELECT size, root FROM head'),
    removeHead: db.prepare('DELETE FROM head'),
    insertHead: db.prepare('INSERT INTO head VALUES (?, ?)'),
  };
}
