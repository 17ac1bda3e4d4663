import { lastTileMismatch } from '../../projections/merkleTree/lastTileMismatch.ts';
import { LogTiles } from '../../projections/merkleTree/logTiles.ts';
import { loadTree, openTree, readTile } from '../../projections/merkleTree/treeFile.ts';
import type { ViewCheckpoint } from '../../projections/view.ts';
import type { EventLog, Position } from '../eventStore/eventStore.ts';
import { HASH_BYTES, rootFromTiles } from '../merkle/tiles.ts';
import type { TreeHead } from '../merkle/treeHead.ts';

/** `lastEvents`: so many events were read, the last ones of the tree. */
export type TreeVerification = TreeHead & { position: Position; lastEvents: number; problems: string[] };

type Options = {
  log: EventLog;
  /** The file of the Merkle tree. */
  file: string;
  expect?: TreeHead | undefined;
};

/**
 * Verifies the Merkle tree in a file, in a time that does not grow with the log: the last tile of each level
 * against the tiles below it, the last one of all against the events of the log, and an expected root against
 * its tiles. An altered event before the last tile is not found.
 * @throws StoreUnavailable; TilesDiffer, Error if the file cannot be read
 */
export async function verifyTree({ log, file, expect }: Options): Promise<TreeVerification> {
  const { last, checkpoint } = loadTree(file, 'last');
  const tiles = new LogTiles(last, checkpoint.position);
  const problems = [await mismatch(log, tiles, checkpoint), await unexpected(file, tiles.size, expect)];
  return {
    size: tiles.size,
    root: tiles.root(),
    position: checkpoint.position,
    lastEvents: tiles.lastTile.hashes.length / HASH_BYTES,
    problems: problems.filter((problem) => problem !== undefined),
  };
}

async function mismatch(
  log: EventLog,
  tiles: LogTiles,
  checkpoint: ViewCheckpoint,
): Promise<string | undefined> {
  const { logId, position, eventId } = checkpoint;
  if (logId !== (await log.logId()))
    return 'the Merkle tree belongs to another log: the next start rebuilds it';
  if (tiles.size === 0) return undefined;
  if ((await log.readEvent(position))?.id !== eventId)
    return 'the checkpoint of the Merkle tree names an event that the log does not have';
  const reason = await lastTileMismatch(tiles, log);
  return reason && `the Merkle tree is not that of the log: ${reason}`;
}

async function unexpected(
  file: string,
  size: number,
  expect: TreeHead | undefined,
): Promise<string | undefined> {
  if (!expect) return undefined;
  if (expect.size > size) return `the Merkle tree has ${size} leaves, fewer than the expected ${expect.size}`;
  const { db, statements } = openTree(file);
  try {
    const root = await rootFromTiles(expect.size, (tile) => readTile(statements, tile) ?? Buffer.alloc(0));
    if (root === expect.root.toLowerCase()) return undefined;
    return `the first ${expect.size} leaves of the Merkle tree are not the expected ones: their root is ${root}`;
  } finally {
    db.close();
  }
}
