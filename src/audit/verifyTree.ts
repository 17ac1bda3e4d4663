import { lastTileMismatch } from '../../projections/merkleTree/lastTileMismatch.ts';
import { damageOf, loadTree, openTree, readTile } from '../../projections/merkleTree/treeFile.ts';
import type { ViewCheckpoint } from '../../projections/view.ts';
import type { EventLog, Position } from '../eventStore/eventStore.ts';
import { HASH_BYTES, rootFromTiles } from '../merkle/tiles.ts';
import type { TileWriter } from '../merkle/tileWriter.ts';
import type { TreeHead } from '../merkle/treeHead.ts';

/** `lastEvents`: how many events were read, the last ones of the tree. */
export type TreeVerification = TreeHead & { position: Position; lastEvents: number; problems: string[] };

/**
 * Verifies the Merkle tree in a file, in a time that does not grow with the log: the last tile of each level
 * against the tiles below it, the last one of all against the events of the log, and an expected root against
 * its tiles. An altered event before the last tile is not found.
 * @throws StoreUnavailable; Error if the file cannot be read
 */
export async function verifyTree({
  log,
  file,
  expect,
}: {
  log: EventLog;
  file: string;
  expect?: TreeHead | undefined;
}): Promise<TreeVerification> {
  const { tree, checkpoint } = await loadTree(file, 'last').catch((error) => {
    throw new Error(damageOf(error) ?? error.message, { cause: error });
  });
  const problems = [await mismatch(log, tree, checkpoint), await unexpected(file, tree.size, expect)];
  return {
    size: tree.size,
    root: tree.root(),
    position: checkpoint.position,
    lastEvents: tree.lastTile.hashes.length / HASH_BYTES,
    problems: problems.filter((problem) => problem !== undefined),
  };
}

async function mismatch(
  log: EventLog,
  tree: TileWriter,
  { logId, position, eventId }: ViewCheckpoint,
): Promise<string | undefined> {
  if (logId !== (await log.logId()))
    return 'the Merkle tree belongs to another log: the next start rebuilds it';
  if (tree.size === 0) return undefined;
  if ((await log.readEvent(position))?.id !== eventId)
    return 'the checkpoint of the Merkle tree names an event that the log does not have';
  const reason = await lastTileMismatch(tree, log);
  return reason && `the Merkle tree is not that of the log: ${reason}`;
}

async function unexpected(file: string, size: number, expect?: TreeHead): Promise<string | undefined> {
  if (!expect) return undefined;
  if (expect.size > size) return `the Merkle tree has ${size} leaves, fewer than the expected ${expect.size}`;
  const { db, statements } = openTree(file);
  try {
    const root = await rootFromTiles(expect.size, (tile) => readTile(statements, tile));
    if (root === expect.root.toLowerCase()) return undefined;
    return `the first ${expect.size} leaves of the Merkle tree are not the expected ones: their root is ${root}`;
  } finally {
    db.close();
  }
}
