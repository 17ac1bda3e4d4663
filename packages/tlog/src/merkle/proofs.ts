import { nodeHash } from './merkleTree.ts';
import type { TreeHead } from './treeHead.ts';

// Merkle proofs of RFC 9162, sections 2.1.3 (inclusion) and 2.1.4 (consistency).

/** The leaves from `start` to `end` (exclusive); their Merkle Tree Hash is one node of a proof. */
export type Leaves = { start: number; end: number };

/** The consistency proof from the log's first `from` to its first `to` events; undefined if it has fewer events. */
export type ProveConsistency = (from: number, to: number) => Promise<readonly string[] | undefined>;

/** The nodes of the inclusion proof of leaf `m` in a tree of `n` leaves: PATH of section 2.1.3.1. */
export function inclusionPath(m: number, n: number, start = 0): Leaves[] {
  if (n === 1) return [];
  const k = largestPowerBelow(n);
  return m < k
    ? [...inclusionPath(m, k, start), { start: start + k, end: start + n }]
    : [...inclusionPath(m - k, n - k, start + k), { start, end: start + k }];
}

/** The nodes of the consistency proof from `m` to `n` leaves: PROOF of section 2.1.4.1; none if `m` is 0. */
export function consistencyPath(m: number, n: number): Leaves[] {
  return m === 0 ? [] : subProof(m, n, 0, true);
}

function subProof(m: number, n: number, start: number, isOldTree: boolean): Leaves[] {
  if (m === n) return isOldTree ? [] : [{ start, end: start + m }];
  const k = largestPowerBelow(n);
  return m <= k
    ? [...subProof(m, k, start, isOldTree), { start: start + k, end: start + n }]
    : [...subProof(m - k, n - k, start + k, false), { start, end: start + k }];
}

/** The largest power of two less than `n`. */
function largestPowerBelow(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

/** Whether `path` is an inclusion proof of the leaf at `index`, from 0. */
export function verifyInclusion(
  leaf: string,
  { index, size, root, path }: { index: number; size: number; root: string; path: readonly string[] },
): boolean {
  if (index >= size) return false;
  const nodes = inclusionPath(index, size);
  if (path.length !== nodes.length) return false;
  let found = leaf;
  for (const [i, { start }] of nodes.entries()) {
    const sibling = path[i] as string;
    found = start > index ? nodeHash(found, sibling) : nodeHash(sibling, found);
  }
  return found === root;
}

/** Whether `path` proves that `from` is the beginning of `to`. The empty tree is the beginning of every tree. */
export function verifyConsistency(from: TreeHead, to: TreeHead, path: readonly string[]): boolean {
  if (from.size > to.size) return false;
  if (from.size === 0) return path.length === 0;
  const nodes = consistencyPath(from.size, to.size);
  if (path.length !== nodes.length) return false;
  let [earlier, later] = [from.root, from.root];
  for (const [i, { start, end }] of nodes.entries()) {
    const node = path[i] as string;
    if (end === from.size) {
      [earlier, later] = [node, node]; // the first node is the last subtree of the earlier tree
    } else if (start < from.size) {
      [earlier, later] = [nodeHash(node, earlier), nodeHash(node, later)];
    } else {
      later = nodeHash(later, node);
    }
  }
  return earlier === from.root && later === to.root;
}
