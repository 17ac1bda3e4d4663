import {
  consistencyProofFromTiles,
  formatConsistencyProof,
  formatTreeHead,
  isSameHead,
  type ReadTile,
  rootFromTiles,
  TILE_WIDTH,
  TileMismatch,
  type TreeHead,
  tilePath,
  VerifiedTiles,
} from '@event-sourced/tlog';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import { NotChecked } from './notChecked.ts';
import { describe, findLargest, type Received, shownBy } from './received.ts';

/** Why the tree of a checkpoint could not be read, or not be compared with a smaller checkpoint. */
export type Failures = ReadonlyMap<Received, NotChecked | TileMismatch>;

/** Finds contradictions between two checkpoints without their tiles. @throws Alarm */
export function compareHeads(checkpoints: readonly Received[]): void {
  for (const [i, one] of checkpoints.entries()) {
    const other = checkpoints
      .slice(0, i)
      .find((earlier) => (earlier.size === one.size) !== (earlier.root === one.root));
    if (!other) continue;
    const message =
      other.size === one.size
        ? `the log has signed two roots of ${one.size} events: ${other.root}${shownBy(other)} and ${one.root}${shownBy(one)}`
        : `the log has signed the root of ${other.size} events${shownBy(other)} again, for ${one.size} events${shownBy(one)}`;
    throw new Alarm('fork', message, checkpointFiles(one, other));
  }
}

/**
 * Compares checkpoints using stored and served tiles; `received` is one of them. Returns its tree, and what could not be
 * compared. @throws Alarm for a fork, even if the log serves only the tiles of one branch
 */
export async function compareTrees(
  received: Received,
  all: readonly Received[],
  check: Check,
): Promise<{ tree: VerifiedTiles | undefined; failures: Failures }> {
  const failures = new Map<Received, NotChecked | TileMismatch>();
  const trees = new Map<Received, VerifiedTiles>();
  const tryTo = async (larger: Received, compare: () => Promise<unknown>): Promise<void> => {
    try {
      await compare();
    } catch (error) {
      if (!(error instanceof NotChecked || error instanceof TileMismatch)) throw error;
      if (!failures.has(larger)) failures.set(larger, error);
    }
  };
  const served = findLargest(all.filter(({ mayBeAhead }) => !mayBeAhead));
  for (const larger of new Set([findLargest(all), received, served, check.state.compared])) {
    if (!larger) continue;
    await tryTo(larger, async () => {
      const tiles = await openTree(larger, check);
      trees.set(larger, tiles);
      for (const smaller of all)
        if (smaller.size < larger.size)
          await tryTo(larger, () => compareAt(smaller.size, smaller, { larger, tiles }));
    });
    if (failures.size === 0 && trees.has(received)) break;
  }
  // The log may no longer serve the last tiles of a smaller tree: compare the full tiles before them.
  for (const [larger, tiles] of trees)
    for (const [smaller, own] of trees)
      if (smaller.size < larger.size && failures.has(larger))
        for (let width = TILE_WIDTH; width <= smaller.size; width *= TILE_WIDTH)
          await tryTo(larger, () =>
            compareAt(smaller.size - (smaller.size % width), smaller, { larger, tiles, own }),
          );
  return { tree: trees.get(received), failures };
}

/** Opens the tree of a checkpoint, using stored and served tiles. @throws TileMismatch, NotChecked */
async function openTree(checkpoint: Received, { state, client }: Check): Promise<VerifiedTiles> {
  const open = (read: ReadTile) => VerifiedTiles.open(checkpoint, read);
  const fetch: ReadTile = (tile) => client.tile(tile);
  if (!isSameHead(checkpoint, state.compared) || state.tiles.size === 0) return open(fetch);
  return open((tile) => state.tiles.get(tilePath(tile)) ?? fetch(tile)).catch((error) => {
    if (error instanceof TileMismatch) return open(fetch); // the file of the state may be damaged
    throw error;
  });
}

/** `own`: the tiles of the smaller checkpoint, to compare less than its size. */
type Trees = { larger: Received; tiles: VerifiedTiles; own?: VerifiedTiles };

/** Compares the first `size` entries of two checkpoints. @throws Alarm, TileMismatch, NotChecked */
async function compareAt(size: number, smaller: Received, { larger, tiles, own }: Trees): Promise<void> {
  const expected = { size, root: own ? await rootFromTiles(size, own.read) : smaller.root };
  const found = { size, root: await rootFromTiles(size, tiles.read) };
  if (found.root === expected.root) return;
  const proof = async (
    name: string,
    { note, ...to }: Received,
    { read }: VerifiedTiles,
    heads: TreeHead[],
  ) => {
    const path = await consistencyProofFromTiles(size, to.size, read);
    const content = Buffer.from(formatConsistencyProof({ from: size, path, checkpoint: note }));
    const commands = [`python3 consistency.py ${heads.map(formatTreeHead).join(' ')} < ${name}`];
    return { name, content, commands };
  };
  const begins = own ? `, which begins with ${formatTreeHead(expected)}` : '';
  const message = `the log has signed ${describe(smaller)}${begins}, but the first ${size} of its ${larger.size} events${shownBy(larger)} are ${formatTreeHead(found)}`;
  const isInOrder = smaller.receivedAt <= larger.receivedAt;
  throw new Alarm('fork', message, [
    ...(isInOrder ? checkpointFiles(larger, smaller) : checkpointFiles(smaller, larger)),
    ...(own ? [await proof('consistency-smaller.proof', smaller, own, [expected])] : []),
    // The last command concludes: the root that the larger log begins with, and the other one.
    await proof('consistency.proof', larger, tiles, [found, expected]),
  ]);
}
