import type { DatabaseSync } from 'node:sqlite';
import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { HASH_BYTES, rootOfTile, TILE_WIDTH, type Tile } from '../../src/merkle/tiles.ts';
import type { Checkpoint } from '../view.ts';
import { openViewReader, readCheckpoint, type ViewFormat } from '../viewDatabase.ts';
import type { Row } from '../viewProtocol.ts';
import type { StoredTile } from './logTiles.ts';

/** The file: a row for each tile, about 34 bytes per event. `number` is the tile's index in its level. */
export const MERKLE_TREE: ViewFormat = {
  applicationId: 0x50547265, // 'PTre' in ASCII
  version: 1,
  schema: `
    CREATE TABLE tiles (
      level        INTEGER NOT NULL,
      number       INTEGER NOT NULL,
      hashes       BLOB    NOT NULL,
      starts_after INTEGER,
      PRIMARY KEY (level, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tiles_by_position ON tiles (starts_after) WHERE level = 0;`,
  insert: 'INSERT OR REPLACE INTO tiles (level, number, hashes, starts_after) VALUES (?, ?, ?, ?)',
  empty: 'DELETE FROM tiles',
};

/** The values of the format's `insert`. */
export const rowOf = ({ level, index, hashes, startsAfter }: StoredTile): Row => [
  BigInt(level),
  BigInt(index),
  hashes,
  startsAfter,
];

/** A tree as its file has it: the last tile of each level, from level 0 upwards. */
export type LoadedTree = { last: StoredTile[]; checkpoint: Checkpoint };

/** The tiles of a file contradict each other. */
export class TilesDiffer extends Error {
  override readonly name = 'TilesDiffer';
}

/**
 * Reads the whole tree of a file in one snapshot, and checks its tiles against each other.
 * @throws TilesDiffer, or SQLite's error if the file is damaged
 */
export function loadTree(file: string): LoadedTree {
  const { db, statements } = openTree(file);
  try {
    db.exec('BEGIN');
    const checkpoint = readCheckpoint(db);
    const last: StoredTile[] = [];
    let below: readonly string[] | undefined;
    for (let level = 0; !below || below.length > 0; level++) {
      const tiles = (statements.ofLevel.iterate(level) as Iterable<TileRow>)[Symbol.iterator]();
      below = checkLevel(tiles, { level, below, last });
    }
    const { levels } = statements.levels.get() as { levels: bigint };
    assertFits(Number(levels) === last.length, 'it has tiles of other levels');
    const start = last[0]?.startsAfter ?? null;
    assertFits((start === null) === (checkpoint.position === START), 'its checkpoint does not fit its tiles');
    assertFits(start === null || start < checkpoint.position, 'its checkpoint is before its last tile');
    return { last, checkpoint };
  } finally {
    db.close();
  }
}

/** A row of the table. */
export type TileRow = { number: bigint; hashes: Uint8Array; startsAfter: Position | null };
type Level = { level: number; below: readonly string[] | undefined; last: StoredTile[] };

/** Checks the tiles of a level against those below it, adds the last one, and returns the roots of the full ones. */
function checkLevel(rows: Iterator<TileRow>, { level, below, last }: Level): string[] {
  const roots: string[] = [];
  let count = 0;
  let previous: StoredTile | undefined;
  for (const row of Iterator.from(rows)) {
    const tile = toTile(level, row);
    const { index, width, hashes, startsAfter } = tile;
    const path = `tile ${index} of level ${level}`;
    assertFits(index === (previous ? previous.index + 1 : 0), `${path} is not the next one`);
    assertFits(!previous || previous.width === TILE_WIDTH, `${path} follows a partial one`);
    assertFits(
      hashes.length === width * HASH_BYTES && width > 0 && width <= TILE_WIDTH,
      `${path} has a wrong size`,
    );
    if (level === 0) assertFits(startsAfter !== null && startsAfter >= START, `${path} has no position`);
    if (level === 0 && previous)
      assertFits(
        (startsAfter as Position) > (previous.startsAfter as Position),
        `${path} has a wrong position`,
      );
    if (below)
      assertFits(
        hashes.toString('hex') === below.slice(count, count + width).join(''),
        `${path} is not that of the tiles below it`,
      );
    if (width === TILE_WIDTH) roots.push(rootOfTile(hashes));
    count += width;
    previous = tile;
  }
  assertFits(!below || count === below.length, `level ${level} lacks tiles`);
  if (previous) last.push(previous);
  return roots;
}

function toTile(level: number, { number, hashes, startsAfter }: TileRow): StoredTile {
  const bytes = Buffer.from(hashes.buffer, hashes.byteOffset, hashes.byteLength);
  return {
    level,
    index: Number(number),
    width: Math.floor(bytes.length / HASH_BYTES),
    hashes: bytes,
    startsAfter,
  };
}

function assertFits(fits: boolean, problem: string): asserts fits {
  if (!fits) throw new TilesDiffer(`its tiles contradict each other: ${problem}`);
}

/** Opens the file of a tree for reading, also beside its writer. The caller closes `db`. */
export function openTree(file: string) {
  return openViewReader(file, MERKLE_TREE, (db: DatabaseSync) => ({
    tile: db.prepare(
      'SELECT number, hashes, starts_after AS startsAfter FROM tiles WHERE level = ? AND number = ?',
    ),
    ofLevel: db.prepare(
      'SELECT number, hashes, starts_after AS startsAfter FROM tiles WHERE level = ? ORDER BY number',
    ),
    lastLeaves: db.prepare(
      'SELECT number, hashes, starts_after AS startsAfter FROM tiles WHERE level = 0 ORDER BY number DESC LIMIT 1',
    ),
    levels: db.prepare('SELECT count(DISTINCT level) AS levels FROM tiles'),
    before: db.prepare(`
      SELECT number, starts_after AS startsAfter FROM tiles WHERE level = 0 AND starts_after < ?
      ORDER BY starts_after DESC LIMIT 1`),
  }));
}

export type TreeStatements = ReturnType<typeof openTree>['statements'];

/**
 * The hashes of a tile, `width` × 32 bytes; undefined if the file does not have so many. A narrower tile of an
 * earlier tree is the beginning of the present one.
 */
export function readTile({ tile }: TreeStatements, { level, index, width }: Tile): Buffer | undefined {
  const row = tile.get(level, index) as TileRow | undefined;
  if (!row || row.hashes.length < width * HASH_BYTES) return undefined;
  return Buffer.from(row.hashes.buffer, row.hashes.byteOffset, width * HASH_BYTES);
}
