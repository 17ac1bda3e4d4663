import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Position, START } from '@event-sourced/event-log';
import { type Difference, type Row, ViewBehind, type ViewDefinition } from '@event-sourced/event-log/views';
import { DamagedFile } from '@event-sourced/node/files';
import {
  HASH_BYTES,
  leafHashes,
  type StoredTile,
  TILE_WIDTH,
  type Tile,
  TileWriter,
  type TreeHead,
  tileHashes,
  tilePath,
  tileRoot,
  tileWidth,
  toHex,
} from '@event-sourced/tlog';
import { LRUCache } from 'lru-cache';

/** The file: a row for each tile, about 34 bytes per event. `number` is the tile's index. Level 0 has entries. */
export const MERKLE_TREE: ViewDefinition = {
  name: 'merkleTree',
  title: 'Merkle tree',
  applicationId: 0x50547265, // 'PTre' in ASCII
  version: 3,
  cacheKiB: 2_048, // tiles are appended
  onErasure: 'keep', // a stub has the same entry
  table: 'tiles',
  describe: describeDifference,
  schema: `
    CREATE TABLE tiles (
      level        INTEGER NOT NULL,
      number       INTEGER NOT NULL,
      hashes       BLOB    NOT NULL,
      starts_after INTEGER,
      PRIMARY KEY (level, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tiles_by_position ON tiles (starts_after) WHERE level = 0;
    CREATE TABLE head (size INTEGER PRIMARY KEY, root TEXT NOT NULL) STRICT;`,
};

/** The number of verified full tiles of 8 KiB in the cache, at level 0 with their entries. */
const MAX_CACHED = 64;

/** A tile as it is stored, and the hashes that it has in the tree. */
type KnownTile = { stored: Uint8Array; hashes: Uint8Array };

/**
 * The tiles of a tree in an open file. The root is computed from the last tile of each level, which are in memory. Full tiles
 * are rows; each one is verified up to the root when it is read. In memory, the tree may be ahead of the file.
 */
export class TreeTiles {
  readonly #statements: ReturnType<typeof prepare>;
  readonly #tree: TileWriter;
  /** The tree head, computed once for each size. */
  #head: TreeHead | undefined;
  readonly #verified = new LRUCache<string, KnownTile>({ max: MAX_CACHED });

  /** `position` is that of the last entry. @throws DamagedFile */
  constructor(db: DatabaseSync, position: Position) {
    this.#statements = prepare(db);
    this.#tree = new TileWriter(lastTiles(this.#statements), position);
    const saved = this.#statements.head.get() as { size: bigint; root: string } | undefined;
    if (saved && (Number(saved.size) !== this.#tree.size || saved.root !== this.#tree.root()))
      damaged('its last tiles do not match the saved root');
    if ((this.#tree.size === 0) !== (position === START)) damaged('the bookmark does not match the tiles');
  }

  get head(): TreeHead {
    const { size } = this.#tree;
    if (this.#head?.size !== size) this.#head = { size, root: this.#tree.root() };
    return this.#head;
  }

  append(entry: string, position: Position): void {
    this.#tree.append(entry, position);
    if (this.#tree.size % TILE_WIDTH === 0) this.#insertTiles();
  }

  /** Writes the tree to the file, in an open transaction. */
  write(): void {
    const { size, root } = this.head;
    this.#insertTiles();
    this.#statements.removeHead.run();
    this.#statements.insertHead.run(size, root);
  }

  has({ level, index, width }: Tile): boolean {
    return width <= tileWidth(level, index, this.#tree.size);
  }

  /** The first hashes of a tile. @throws ViewBehind if the tree lacks the tile; DamagedFile */
  hashes(tile: Tile): Uint8Array {
    return this.#known(tile).hashes.subarray(0, tile.width * HASH_BYTES);
  }

  /** The first `width` entries of a tile of level 0. @throws ViewBehind, DamagedFile */
  entries(index: number, width: number): Uint8Array {
    return this.#known({ level: 0, index, width }).stored.subarray(0, width * HASH_BYTES);
  }

  /** The entry at an index. @throws ViewBehind, DamagedFile */
  entryAt(index: number): string {
    const at = index % TILE_WIDTH;
    return toHex(this.entries(Math.floor(index / TILE_WIDTH), at + 1).subarray(at * HASH_BYTES));
  }

  /** The index of the entry of an event at this position, which the tree has reached; undefined if it has another entry. */
  find(entry: string, position: Position): number | undefined {
    const tile = this.#tileWith(position);
    const width = tileWidth(0, tile, this.#tree.size);
    const at = width === 0 ? -1 : tileHashes(this.entries(tile, width)).indexOf(entry);
    return at < 0 ? undefined : tile * TILE_WIDTH + at;
  }

  /** The position before the first entry of a tile of level 0. No hash covers it. @throws DamagedFile */
  tileStart(index: number): Position {
    const row = this.#lastTile(0, index) ?? (this.#statements.tile.get(0, index) as TileRow | undefined);
    return row?.startsAfter ?? damaged(`tile ${index} of level 0 is missing, or has no position`);
  }

  /** The last tile of level 0 that was stored, or is growing. */
  get lastEntries(): StoredTile | undefined {
    return this.#tree.lastTile(0);
  }

  #tileWith(position: Position): number {
    const last = this.#tree.lastTile(0);
    if (last?.startsAfter != null && last.startsAfter < position) return last.index;
    const row = this.#statements.before.get(position) as Pick<TileRow, 'number'> | undefined;
    return Number(row?.number ?? 0n);
  }

  #insertTiles(): void {
    for (const { level, index, hashes, startsAfter } of this.#tree.takeChanged())
      this.#statements.insert.run(level, index, hashes, startsAfter);
  }

  #lastTile(level: number, index: number): StoredTile | undefined {
    const last = this.#tree.lastTile(level);
    return last?.index === index ? last : undefined;
  }

  #known(tile: Tile): KnownTile {
    if (!this.has(tile)) throw new ViewBehind('The Merkle tree is not up to date yet; retry.');
    return this.#readVerified(tile);
  }

  /** A tile at its width in the tree: the last one of a level from memory, others verified by the tile above. */
  #readVerified({ level, index }: Omit<Tile, 'width'>): KnownTile {
    const last = this.#lastTile(level, index);
    if (last) return { stored: last.hashes, hashes: level === 0 ? this.#tree.lastLeaves() : last.hashes };
    const path = tilePath({ level, index, width: TILE_WIDTH });
    const known = this.#verified.get(path);
    if (known) return known;
    const { hashes: stored } = toTile(level, this.#statements.tile.get(level, index) as TileRow | undefined);
    const hashes = level === 0 ? leafHashes(stored) : stored;
    const above = this.#readVerified({ level: level + 1, index: Math.floor(index / TILE_WIDTH) }).hashes;
    const at = (index % TILE_WIDTH) * HASH_BYTES;
    if (
      hashes.length !== TILE_WIDTH * HASH_BYTES ||
      tileRoot(hashes) !== toHex(above.subarray(at, at + HASH_BYTES))
    )
      damaged(`${path} does not have its hash in the tile above`);
    this.#verified.set(path, { stored, hashes });
    return { stored, hashes };
  }
}

function describeDifference(expected: Row | undefined, found: Row | undefined): Difference {
  const more = { problem: 'has hashes that do not follow from the log' };
  if (!expected) return more;
  const { level, number, hashes, starts_after } = expected;
  const bytes = hashes as Uint8Array;
  const saved = found?.hashes instanceof Uint8Array ? found.hashes : new Uint8Array();
  const path = tilePath({ level: Number(level), index: Number(number), width: bytes.length / HASH_BYTES });
  const at = bytes.findIndex((byte, i) => byte !== saved[i]);
  if (at < 0 && saved.length > bytes.length) return more;
  if (at < 0) return { problem: `has a wrong position before ${path}` };
  if (level !== 0n) return { problem: `does not have the hashes of ${path}` };
  const offset = Math.floor(at / HASH_BYTES);
  const index = Number(number) * TILE_WIDTH + offset;
  const problem = `does not have the entry of this event, index ${index}`;
  return { problem, event: { after: starts_after as Position, offset } };
}

function damaged(problem: string): never {
  throw new DamagedFile(problem);
}

type TileRow = { number: bigint; hashes: Uint8Array; startsAfter: Position | null };

/** The last tile of each level; together they must make up a tree. @throws DamagedFile */
function lastTiles({ lastOfLevel, levels }: ReturnType<typeof prepare>): StoredTile[] {
  const last: StoredTile[] = [];
  for (let level = 0; level < Number((levels.get() as { levels: bigint }).levels); level++)
    last.push(toTile(level, lastOfLevel.get(level) as TileRow | undefined));
  const [entries] = last;
  const size = entries ? entries.index * TILE_WIDTH + entries.width : 0;
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
  const { hashes } = row;
  const width = hashes.length / HASH_BYTES;
  if (!Number.isInteger(width) || width > TILE_WIDTH) damaged(`a tile of level ${level} has a wrong size`);
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
    // Without INDEXED BY, SQLite takes the primary key, and sorts every tile of the level.
    before: read(
      'SELECT number FROM tiles INDEXED BY tiles_by_position WHERE level = 0 AND starts_after < ? ORDER BY starts_after DESC LIMIT 1',
    ),
    insert: db.prepare(
      'INSERT OR REPLACE INTO tiles (level, number, hashes, starts_after) VALUES (?, ?, ?, ?)',
    ),
    head: read('SELECT size, root FROM head'),
    removeHead: db.prepare('DELETE FROM head'),
    insertHead: db.prepare('INSERT INTO head VALUES (?, ?)'),
  };
}
