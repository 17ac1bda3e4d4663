import { renameSync, rmSync } from 'node:fs';
import type { StatementSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { type Position, type RecordedEvent, START } from '@event-sourced/event-log';
import { fsyncPath } from '@event-sourced/event-log/disk';
import type { ComparedFormat, SavedRow, ViewCheckpoint } from '@event-sourced/event-log/views';
import { isDamage, openForReading, readCheckpoint, type ViewFormat } from '@event-sourced/event-log/views';
import { HASH_BYTES, TILE_WIDTH, type Tile, TileMismatch } from '../merkle/tiles.ts';
import { type StoredTile, TileWriter } from '../merkle/tileWriter.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { VerifiedTiles } from '../merkle/verifiedTiles.ts';

/** After each tile, which takes about half a millisecond: requests need the processor, too. */
const CHECK_PAUSE_MS = 1;

/** The file: a row for each tile, about 34 bytes per event. `number` is the tile's index in its level. */
export const MERKLE_TREE: ViewFormat = {
  applicationId: 0x50547265, // 'PTre' in ASCII
  version: 1,
  cacheKiB: 2_048, // tiles are appended
  schema: `
    CREATE TABLE tiles (
      level        INTEGER NOT NULL,
      number       INTEGER NOT NULL,
      hashes       BLOB    NOT NULL,
      starts_after INTEGER,
      PRIMARY KEY (level, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tiles_by_position ON tiles (starts_after) WHERE level = 0;`,
  insert: (db) => {
    const insert = db.prepare(
      'INSERT OR REPLACE INTO tiles (level, number, hashes, starts_after) VALUES (?, ?, ?, ?)',
    );
    return (rows) => {
      for (const row of rows) insert.run(...row);
    };
  },
  empty: 'DELETE FROM tiles',
};

/** How the file of a tree is compared with the log whose leaves these are. */
export const comparedTree = (leafOf: (event: RecordedEvent) => string): ComparedFormat => ({
  ...MERKLE_TREE,
  draft: (db) => {
    db.exec(MERKLE_TREE.schema);
    const insert = MERKLE_TREE.insert(db);
    const tree = new TileWriter();
    const end = (): void => insert(tree.takeChanged().map(rowOf));
    return {
      table: 'tiles',
      apply: (event) => {
        tree.append(leafOf(event), event.position);
        if (tree.size % TILE_WIDTH === 0) end();
      },
      end,
    };
  },
});

export const rowOf = ({ level, index, hashes, startsAfter }: StoredTile): SavedRow => [
  BigInt(level),
  BigInt(index),
  hashes,
  startsAfter,
];

/**
 * Reads a tree from its file in one snapshot. Each hash from which its roots are computed, those of the last tile of each
 * level, must be the root of the full tile below it. @throws TileMismatch, or SQLite's error if the file is damaged
 */
export async function loadTree(file: string): Promise<{ tree: TileWriter; checkpoint: ViewCheckpoint }> {
  const { db, statements } = openTree(file);
  try {
    db.exec('BEGIN');
    const checkpoint = readCheckpoint(db);
    const last = lastTiles(statements);
    const tree = new TileWriter(last, checkpoint.position);
    const tiles = await VerifiedTiles.open({ size: tree.size, root: tree.root() }, (tile) =>
      readTile(statements, tile),
    );
    for (const { level, index, width } of last.slice(1))
      for (let i = index * TILE_WIDTH; i < index * TILE_WIDTH + width; i++)
        await tiles.read({ level: level - 1, index: i, width: TILE_WIDTH });
    let previous = BEFORE_START;
    for (let i = (last[1]?.index ?? 0) * TILE_WIDTH; i * TILE_WIDTH < tree.size; i++)
      previous = checkedStart(statements, i, previous);
    const start = last[0]?.startsAfter ?? null;
    assertFits(
      (start === null) === (checkpoint.position === START),
      'the checkpoint is not that of the tiles',
    );
    assertFits(start === null || start < checkpoint.position, 'the checkpoint is before the last tile');
    return { tree, checkpoint };
  } finally {
    db.close();
  }
}

/**
 * Checks all tiles of a tree with this size and root, in steps between which it may grow, as long as `isNeeded`.
 * @throws TileMismatch, or SQLite's error
 */
export async function checkTiles(file: string, head: TreeHead, isNeeded: () => boolean): Promise<void> {
  const { db, statements } = openTree(file);
  try {
    const tiles = await VerifiedTiles.open(head, async (tile) => readTile(statements, tile));
    let start = BEFORE_START;
    for (let index = 0; (index + 1) * TILE_WIDTH <= head.size && isNeeded(); index++) {
      await tiles.read({ level: 0, index, width: TILE_WIDTH });
      start = checkedStart(statements, index, start);
      await setTimeout(CHECK_PAUSE_MS);
    }
  } finally {
    db.close();
  }
}

/** Why the file of a tree is damaged, as an error that reading it has thrown says; undefined for other errors. */
export function damageOf(error: unknown): string | undefined {
  if (error instanceof TileMismatch) return `its tiles contradict each other: ${error.message}`;
  return isDamage(error) ? (error as Error).message : undefined;
}

type TileRow = { number: bigint; hashes: Uint8Array; startsAfter: Position | null };

/** The last tile of each level, which must be that of one tree. */
function lastTiles({ lastOfLevel, levels }: TreeStatements): StoredTile[] {
  const last: StoredTile[] = [];
  let size = 0;
  for (let level = 0; level === 0 || size >= TILE_WIDTH ** level; level++) {
    const row = lastOfLevel.get(level) as TileRow | undefined;
    if (!row && level === 0) break;
    assertFits(row !== undefined, `level ${level} is missing`);
    const tile = toTile(level, row);
    const { index, width, hashes } = tile;
    assertFits(
      hashes.length === width * HASH_BYTES && width > 0 && width <= TILE_WIDTH,
      `tile ${index} of level ${level} has a wrong size`,
    );
    if (level === 0) size = index * TILE_WIDTH + width;
    const count = Math.floor(size / TILE_WIDTH ** level);
    assertFits(
      index * TILE_WIDTH + width === count,
      `tile ${index} of level ${level} is not the last of a tree of ${size} leaves`,
    );
    last.push(tile);
  }
  assertFits(Number((levels.get() as { levels: bigint }).levels) === last.length, 'there are other levels');
  return last;
}

const BEFORE_START: Position = START - 1n;

/** `startOfTile`, which must increase from tile to tile, from the beginning of the log on. @throws TileMismatch */
function checkedStart(statements: TreeStatements, index: number, previous: Position): Position {
  const start = startOfTile(statements, index);
  assertFits(index === 0 ? start === START : start > previous, 'the positions do not increase');
  return start;
}

/**
 * The position before the first event of a tile of level 0. No hash covers it, so the table and its index, which are
 * in different pages of the file, must both have it. @throws TileMismatch
 */
export function startOfTile({ tile, indexed }: TreeStatements, index: number): Position {
  const row = tile.get(0, index) as TileRow | undefined;
  const startsAfter = row?.startsAfter ?? undefined;
  assertFits(startsAfter !== undefined, `tile ${index} of level 0 is missing, or has no position`);
  const inIndex = indexed.get(startsAfter) as Pick<TileRow, 'number'> | undefined;
  assertFits(inIndex?.number === BigInt(index), `tile ${index} of level 0 has another position in the index`);
  return startsAfter;
}

/**
 * The tile of level 0 that has the event at a position, if the tree has reached it, and the position before its first
 * event; undefined for START. @throws TileMismatch
 */
export function tileOfPosition(
  statements: TreeStatements,
  position: Position,
): { index: number; startsAfter: Position } | undefined {
  if (position <= START) return undefined;
  const row = statements.before.get(position) as Pick<TileRow, 'number' | 'startsAfter'> | undefined;
  assertFits(row !== undefined, 'tile 0 of level 0 is missing in the index');
  const index = Number(row.number);
  const startsAfter = startOfTile(statements, index);
  const next = statements.tile.get(0, index + 1) as TileRow | undefined;
  const isNext = startsAfter === row.startsAfter && (!next || (next.startsAfter ?? START) >= position);
  assertFits(isNext, `tile ${index} of level 0 has other positions in the index`);
  return { index, startsAfter };
}

function toTile(level: number, row: TileRow): StoredTile {
  const { number, startsAfter } = row;
  const hashes = hashesOf(row);
  return { level, index: Number(number), width: Math.floor(hashes.length / HASH_BYTES), hashes, startsAfter };
}

const NO_HASHES = new Uint8Array();

/** None if the tile is missing. In a damaged file, a column may have any type. */
function hashesOf(row: TileRow | undefined): Buffer {
  const { buffer, byteOffset, byteLength } = row?.hashes instanceof Uint8Array ? row.hashes : NO_HASHES;
  return Buffer.from(buffer, byteOffset, byteLength);
}

function assertFits(fits: boolean, problem: string): asserts fits {
  if (!fits) throw new TileMismatch(problem);
}

/** Opens the file of a tree for reading, also beside its writer. The caller closes `db`. */
export function openTree(file: string) {
  using opening = new DisposableStack();
  const db = opening.use(openForReading(file, MERKLE_TREE));
  const prepare = (sql: string): StatementSync => {
    const statement = db.prepare(sql);
    statement.setReadBigInts(true);
    return statement;
  };
  const columns = 'SELECT number, hashes, starts_after AS startsAfter FROM tiles';
  const statements = {
    tile: prepare(`${columns} WHERE level = ? AND number = ?`),
    lastOfLevel: prepare(`${columns} WHERE level = ? ORDER BY number DESC LIMIT 1`),
    levels: prepare('SELECT coalesce(max(level) + 1, 0) AS levels FROM tiles'),
    indexed: prepare(
      'SELECT number FROM tiles INDEXED BY tiles_by_position WHERE level = 0 AND starts_after = ?',
    ),
    before: prepare(`
      SELECT number, starts_after AS startsAfter FROM tiles INDEXED BY tiles_by_position
      WHERE level = 0 AND starts_after < ? ORDER BY starts_after DESC LIMIT 1`),
  };
  opening.move();
  return { db, statements };
}

export type TreeStatements = ReturnType<typeof openTree>['statements'];

/** The first hashes of a tile, `width` × 32 bytes. @throws TileMismatch if the file does not have as many */
export function readTile({ tile }: TreeStatements, { level, index, width }: Tile): Buffer {
  const hashes = hashesOf(tile.get(level, index) as TileRow | undefined);
  assertFits(
    hashes.length >= width * HASH_BYTES && hashes.length <= TILE_WIDTH * HASH_BYTES,
    `tile ${index} of level ${level} is missing or has a wrong size`,
  );
  return hashes.subarray(0, width * HASH_BYTES);
}

/** Copies the file of a tree, also beside its writer, to one that is complete or that of an earlier copy. */
export function copyTreeFile(file: string, copy: string): void {
  const draft = `${copy}.draft`;
  rmSync(draft, { force: true });
  const { db } = openTree(file);
  try {
    db.prepare('VACUUM INTO ?').run(draft);
  } finally {
    db.close();
  }
  fsyncPath(draft);
  renameSync(draft, copy);
}
