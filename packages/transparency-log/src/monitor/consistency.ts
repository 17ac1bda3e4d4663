import {
  consistencyProofFromTiles,
  type ReadTile,
  rootFromTiles,
  TILE_WIDTH,
  TileMismatch,
  tilePath,
} from '../merkle/tiles.ts';
import { formatTreeHead, type TreeHead } from '../merkle/treeHead.ts';
import { VerifiedTiles } from '../merkle/verifiedTiles.ts';
import { formatConsistencyProof } from '../notes/proof.ts';
import { Alarm, checkpointFiles, type Evidence } from './alarm.ts';
import type { Check } from './check.ts';
import { NotChecked } from './notChecked.ts';
import { describe, findLargest, type Received, shownBy } from './received.ts';
import { type Reread, wrongOrMissingTile } from './reread.ts';
import { knownCheckpoints, type State } from './state.ts';

/** A checkpoint with the verified tiles of its tree. */
export type Tree = { checkpoint: Received; tiles: VerifiedTiles };

/** Finds contradictions between two checkpoints without their tiles. @throws Alarm */
export function compareHeads(state: State): void {
  const known = knownCheckpoints(state);
  for (const [i, one] of known.entries()) {
    const other = known
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

/** Opens the tree of a checkpoint, using stored and served tiles. @throws TileMismatch, NotChecked */
export async function openTree(checkpoint: Received, { state, client }: Check): Promise<Tree> {
  const open = async (kept?: State['tiles']): Promise<Tree> => {
    const read: ReadTile = async (tile) => kept?.get(tilePath(tile)) ?? client.tile(tile);
    return { checkpoint, tiles: await VerifiedTiles.open(checkpoint, read) };
  };
  if (checkpoint !== state.checkpoint || state.tiles.size === 0) return open();
  return open(state.tiles).catch((error) => {
    if (error instanceof TileMismatch) return open(); // the file of the state may be damaged
    throw error;
  });
}

/** Compares a tree with all smaller checkpoints. @throws Alarm, TileMismatch, NotChecked */
export async function compareWithTree(tree: Tree, others: readonly Received[]): Promise<void> {
  for (const one of others) {
    if (one.size >= tree.checkpoint.size) continue;
    const root = await rootFromTiles(one.size, tree.tiles.read);
    if (root !== one.root) throw await fork(one, tree, { size: one.size, root });
  }
}

/**
 * Compares all checkpoints, using stored and served tiles. Returns whether the tiles prove that `received` is the
 * beginning of the largest checkpoint that the log must serve. @throws Alarm; after comparing, NotChecked if it did not
 * respond
 */
export async function searchFork(received: Received, check: Check): Promise<boolean> {
  const { state, reread } = check;
  let unavailable: NotChecked | undefined;
  /** Stored tiles are compared even if the log does not respond. */
  const tryToCompare = (compare: () => Promise<void>): Promise<boolean> =>
    isShown(compare, reread).catch((error) => {
      if (!(error instanceof NotChecked)) throw error;
      unavailable ??= error;
      return false;
    });
  const known = knownCheckpoints(state);
  const largest = findLargest(known.filter(({ mayBeAhead }) => !mayBeAhead));
  const trees: Tree[] = [];
  for (const one of new Set([largest, findLargest(known), state.checkpoint, received]))
    if (one) await tryToCompare(async () => void trees.push(await openTree(one, check)));
  let isBeginning = false;
  for (const tree of trees) {
    for (const one of known) {
      const isCompared = await tryToCompare(() => compareWithTree(tree, [one]));
      isBeginning ||= isCompared && one === received && tree.checkpoint === largest;
    }
    for (const smaller of trees)
      if (smaller.checkpoint.size < tree.checkpoint.size) await compareFullTiles(smaller, tree, tryToCompare);
  }
  if (unavailable) throw unavailable;
  return isBeginning;
}

/** Compares two trees up to the last full tile of each level: the log may no longer serve the tiles below. */
async function compareFullTiles(
  smaller: Tree,
  larger: Tree,
  tryToCompare: (compare: () => Promise<void>) => Promise<boolean>,
): Promise<void> {
  for (let width = TILE_WIDTH; width <= smaller.checkpoint.size; width *= TILE_WIDTH) {
    const size = smaller.checkpoint.size - (smaller.checkpoint.size % width);
    await tryToCompare(async () => {
      const own = await rootFromTiles(size, smaller.tiles.read);
      const root = await rootFromTiles(size, larger.tiles.read);
      if (own !== root)
        throw await fork(smaller.checkpoint, larger, { size, root }, { tree: smaller, root: own });
    });
  }
}

/**
 * Whether the tiles that `read` reads are served, and match. @throws NotChecked if the log does not respond, for example
 * an instance that is starting; errors that do not concern tiles, such as Alarm
 */
export async function isShown(read: () => Promise<void>, reread: Reread): Promise<boolean> {
  try {
    await reread(read, wrongOrMissingTile);
    return true;
  } catch (error) {
    if (wrongOrMissingTile(error) === undefined) throw error;
    return false;
  }
}

/** The alarm of a fork: the larger tree begins with `head`. `own` is the smaller tree, with its root at this size. */
async function fork(
  smaller: Received,
  larger: Tree,
  head: TreeHead,
  own?: { tree: Tree; root: string },
): Promise<Alarm> {
  const { size } = head;
  const proof = async (name: string, { checkpoint, tiles }: Tree, ...heads: string[]): Promise<Evidence> => {
    const path = await consistencyProofFromTiles(size, checkpoint.size, tiles.read);
    const text = formatConsistencyProof({ from: size, path, checkpoint: checkpoint.note });
    return {
      name,
      content: Buffer.from(text),
      commands: [`python3 consistency.py ${heads.join(' ')} < ${name}`],
    };
  };
  const isInOrder = smaller.receivedAt <= larger.checkpoint.receivedAt;
  const files = isInOrder ? [larger.checkpoint, smaller] : [smaller, larger.checkpoint];
  const [begins, beginsOwn] = [formatTreeHead(head), own && formatTreeHead({ size, root: own.root })];
  const message = `the log has signed ${describe(smaller)}${own ? `, which begins with ${beginsOwn}` : ''}, but the first ${size} of its ${larger.checkpoint.size} events${shownBy(larger.checkpoint)} are ${begins}`;
  return new Alarm('fork', message, [
    ...checkpointFiles(...(files as [Received, Received])),
    ...(own && beginsOwn ? [await proof('consistency-smaller.proof', own.tree, beginsOwn)] : []),
    // The last command concludes: the root that the larger log begins with, and the other one.
    await proof('consistency.proof', larger, begins, beginsOwn ?? formatTreeHead(smaller)),
  ]);
}
