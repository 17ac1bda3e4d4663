import { nodeHash } from './merkleTree.ts';
import type { TreeHead } from './treeHead.ts';

// Merkle proofs of RFC 9162, sections 2.1.3 (inclusion) and 2.1.4 (consistency), in the RFC's notation.

/** The leaves from `start` to `end` (exclusive); their Merkle Tree Hash is one node of a proof. */
export type Leaves = { start: number; end: number };

/** The nodes of the inclusion proof of leaf `m` in the tree of `n` leaves: PATH of section 2.1.3.1. */
export function inclusionPath(m: number, n: number, start = 0): Leaves[] {
  if (n === 1) return [];
  const k = largestPowerBelow(n);
  return m < k
    ? [...inclusionPath(m, k, start), { start: start + k, end: start + n }]
    : [...inclusionPath(m - k, n - k, start + k), { start, end: start + k }];
}

/**
 * The nodes of the consistency proof between the trees of `m` and of `n` leaves: PROOF of section 2.1.4.1.
 */
export function consistencyPath(m: number, n: number): Leaves[] {
  return subProof(m, n, 0, true);
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

/** Verifies an inclusion proof of the leaf at `index`, from 0: section 2.1.3.2. */
export function verifyInclusion(
  leaf: string,
  { index, size, root, path }: { index: number; size: number; root: string; path: readonly string[] },
): boolean {
  if (index >= size) return false;
  let [fn, sn, r] = [BigInt(index), BigInt(size) - 1n, leaf];
  for (const p of path) {
    if (sn === 0n) return false;
    if (isOdd(fn) || fn === sn) {
      r = nodeHash(p, r);
      while (!isOdd(fn) && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else {
      r = nodeHash(r, p);
    }
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && r === root;
}

/**
 * Verifies a consistency proof between two trees, the first of which has at least one leaf: section 2.1.4.2.
 */
export function verifyConsistency(from: TreeHead, to: TreeHead, path: readonly string[]): boolean {
  if (from.size < 1 || from.size > to.size) return false;
  if (from.size === to.size) return path.length === 0 && from.root === to.root;
  const isPowerOfTwo = largestPowerBelow(from.size + 1) === from.size;
  const [first, ...rest] = isPowerOfTwo ? [from.root, ...path] : path;
  if (!first || path.length === 0) return false;
  let [fn, sn] = [BigInt(from.size) - 1n, BigInt(to.size) - 1n];
  while (isOdd(fn)) [fn, sn] = [fn >> 1n, sn >> 1n];
  let [fr, sr] = [first, first];
  for (const c of rest) {
    if (sn === 0n) return false;
    if (isOdd(fn) || fn === sn) {
      [fr, sr] = [nodeHash(c, fr), nodeHash(c, sr)];
      while (!isOdd(fn) && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else {
      sr = nodeHash(sr, c);
    }
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && fr === from.root && sr === to.root;
}

function isOdd(n: bigint): boolean {
  return (n & 1n) === 1n;
}
