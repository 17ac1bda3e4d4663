import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leafHash, nodeHash } from '../../src/merkle/merkleTree.ts';
import {
  consistencyPath,
  inclusionPath,
  type Leaves,
  verifyConsistency,
  verifyInclusion,
} from '../../src/merkle/proofs.ts';
import { MTH, PATH, PROOF, REFERENCE_LEAVES, rootOfPath, rootsOfProof } from './rfc9162.ts';

// The published proofs of the reference tree: https://github.com/transparency-dev/merkle, and before it the
// tests of https://github.com/google/certificate-transparency (which counts leaves from 1).
const L1 = '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7';
const L4 = 'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b';
const L6 = 'b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f';
const L01 = 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125';
const L23 = '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e';
const L45 = '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a';
const L67 = 'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0';
const L0123 = 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7';
const L4567 = '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4';
const L0 = '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d';

const TEXTS = Array.from({ length: 70 }, (_, i) => `leaf ${i}`);
const LEAVES = TEXTS.map(leafHash);
const ROOTS = [...TEXTS, ''].map((_, size) => MTH(TEXTS.slice(0, size)));

/** Hashes of nodes of these trees, and an unrelated hash. */
const someHash = fc.constantFrom(...LEAVES.slice(0, 9), ...ROOTS.slice(0, 10), leafHash('none'));
const somePath = fc.array(someHash, { maxLength: 5 });

/** Some members of a proof, and the others of another. */
const mixed = <P extends object>(proof: fc.Arbitrary<P>, other: fc.Arbitrary<P>): fc.Arbitrary<P> =>
  fc
    .tuple(proof, other)
    .chain(([one, rest]) =>
      fc.subarray(Object.entries(one)).map((kept) => ({ ...rest, ...Object.fromEntries(kept) })),
    );

/** A safe integer, often small or with few bits set. */
const someNumber = fc.oneof(
  fc.maxSafeNat(),
  fc.nat(100),
  fc.tuple(fc.nat(9), fc.nat(49)).map(([few, bits]) => few * 2 ** bits),
);
/** A leaf of a tree of any size. */
const anyPlace = fc
  .tuple(someNumber, someNumber)
  .filter(([from, size]) => from > 0 && from <= size)
  .map(([from, size]) => ({ index: from - 1, size }));

/** Every leaf of every tree of these leaves, and its proof by definition. */
const INCLUSIONS = TEXTS.flatMap((_, last) =>
  LEAVES.slice(0, last + 1).map((leaf, index) => {
    const size = last + 1;
    return { leaf, proof: { index, size, root: rootOf(size), path: PATH(index, TEXTS.slice(0, size)) } };
  }),
);
/** Every pair of trees, and its proof by definition. */
const CONSISTENCIES = INCLUSIONS.map(({ proof: { index, size } }) => ({
  from: tree(index + 1),
  to: tree(size),
  path: PROOF(index + 1, TEXTS.slice(0, size)),
}));
type Inclusion = (typeof INCLUSIONS)[number];
type Consistency = (typeof CONSISTENCIES)[number];
const includes = ({ leaf, proof }: Inclusion): boolean => verifyInclusion(leaf, proof);
const isConsistent = ({ from, to, path }: Consistency): boolean => verifyConsistency(from, to, path);

describe('an inclusion proof', () => {
  test.each([
    { index: 0, size: 1, path: [] },
    { index: 0, size: 8, path: [L1, L23, L4567] },
    { index: 5, size: 8, path: [L4, L67, L0123] },
    { index: 2, size: 3, path: [L01] },
    { index: 1, size: 5, path: [L0, L23, L4] },
  ])('of leaf $index of $size equals the published one, and is valid', ({ index, size, path }) => {
    const leaves = REFERENCE_LEAVES.slice(0, size);
    expect(hashesOf(inclusionPath(index, size), leaves)).toEqual(path);
    const proof = { index, size, root: MTH(leaves), path };
    expect(verifyInclusion(leafHash(leaves[index] as string), proof)).toBe(true);
  });

  test('equals the definition, and is valid, for every leaf of every size up to 70', () => {
    const made = INCLUSIONS.map(({ proof: { index, size } }) => knownHashesOf(inclusionPath(index, size)));
    expect(made).toEqual(INCLUSIONS.map(({ proof }) => proof.path));
    expect(INCLUSIONS.filter((one) => !includes(one))).toEqual([]);
    expect(INCLUSIONS).toHaveLength((70 * 71) / 2);
  });

  test('of any size up to 2^53 is valid if and only if its path leads to the root', () => {
    fc.assert(
      fc.property(anyPlace, fc.integer({ min: -1, max: 1 }), ({ index, size }, more) => {
        const path = Array.from({ length: Math.max(0, inclusionPath(index, size).length + more) }, (_, i) =>
          leafHash(`step ${i}`),
        );
        const root = rootOfPath(index, size, leafHash('leaf'), path);
        const proof = { index, size, root: root ?? leafHash('any'), path };
        expect(verifyInclusion(leafHash('leaf'), proof)).toBe(root !== undefined);
      }),
    );
  });

  test('is valid if and only if inverting the definition leads to its root', () => {
    const any = fc.record({ index: fc.nat(9), size: fc.nat(9), root: someHash, path: somePath });
    const valid = fc.constantFrom(...INCLUSIONS.slice(0, 45)).map(({ proof }) => proof);
    const nearly = mixed(valid, any);
    fc.assert(
      fc.property(fc.oneof(any, nearly), fc.constantFrom(...LEAVES.slice(0, 9)), (proof, leaf) => {
        const computed = rootOfPath(proof.index, proof.size, leaf, proof.path);
        expect(includes({ leaf, proof })).toBe(computed === proof.root);
      }),
      { numRuns: 300 },
    );
  });
});

describe('a consistency proof', () => {
  test.each([
    { from: 1, to: 1, path: [] },
    { from: 1, to: 8, path: [L1, L23, L4567] },
    { from: 6, to: 8, path: [L45, L67, L0123] },
    { from: 2, to: 5, path: [L23, L4] },
    { from: 6, to: 7, path: [L45, L6, L0123] },
  ])('from $from to $to leaves equals the published one, and is valid', ({ from, to, path }) => {
    const leaves = REFERENCE_LEAVES.slice(0, to);
    expect(hashesOf(consistencyPath(from, to), leaves)).toEqual(path);
    const [earlier, later] = [MTH(leaves.slice(0, from)), MTH(leaves)];
    const proof = { from: { size: from, root: earlier }, to: { size: to, root: later }, path };
    expect(isConsistent(proof)).toBe(true);
  });

  test('equals the definition, and is valid, for every pair of sizes up to 70', () => {
    const made = CONSISTENCIES.map(({ from, to }) => knownHashesOf(consistencyPath(from.size, to.size)));
    expect(made).toEqual(CONSISTENCIES.map(({ path }) => path));
    expect(CONSISTENCIES.filter((one) => !isConsistent(one))).toEqual([]);
  });

  test('of any sizes up to 2^53 has at most 54 steps, and is valid if it leads to both roots', () => {
    fc.assert(
      fc.property(anyPlace, fc.integer({ min: -1, max: 1 }), ({ index, size: to }, more) => {
        const from = index + 1;
        const steps = consistencyPath(from, to).length;
        expect(steps).toBeLessThanOrEqual(54);
        const path = Array.from({ length: Math.max(0, steps + more) }, (_, i) => leafHash(`step ${i}`));
        const roots = rootsOfProof(from, to, leafHash('old'), path);
        const [earlier, later] = roots ?? [leafHash('any'), leafHash('any')];
        const holds = verifyConsistency({ size: from, root: earlier }, { size: to, root: later }, path);
        expect(holds).toBe(roots !== undefined);
      }),
    );
  });

  test('from an empty tree has no nodes', () => {
    for (const size of [0, 1, 3]) {
      expect(consistencyPath(0, size)).toEqual([]);
      expect(verifyConsistency(tree(0), tree(size), [])).toBe(true);
      expect(verifyConsistency(tree(0), tree(size), [rootOf(size)])).toBe(false);
    }
  });

  test('is invalid backwards, or between different trees of the same size', () => {
    expect(verifyConsistency(tree(3), tree(0), [])).toBe(false);
    expect(verifyConsistency(tree(5), tree(3), PROOF(3, TEXTS.slice(0, 5)))).toBe(false);
    expect(verifyConsistency({ size: 3, root: rootOf(2) }, tree(3), [])).toBe(false);
    const [old, a, b] = LEAVES.slice(0, 3) as [string, string, string];
    const made = { size: 3, root: nodeHash(nodeHash(old, a), b) };
    expect(verifyConsistency({ size: 5, root: old }, made, [old, a, b])).toBe(false);
  });

  test('is valid if and only if inverting the definition leads to both roots', () => {
    const someTree = fc.record({ size: fc.integer({ min: 1, max: 9 }), root: someHash });
    const any = fc.record({ from: someTree, to: someTree, path: somePath });
    const nearly = mixed(fc.constantFrom(...CONSISTENCIES.slice(0, 45)), any);
    fc.assert(
      fc.property(fc.oneof(any, nearly), (proof) => {
        const { from, to, path } = proof;
        const [earlier, later] = rootsOfProof(from.size, to.size, from.root, path) ?? [];
        const leadsToBoth = earlier === from.root && later === to.root;
        expect(isConsistent(proof)).toBe(leadsToBoth);
      }),
      { numRuns: 300 },
    );
  });
});

function rootOf(size: number): string {
  return ROOTS[size] as string;
}

function tree(size: number): { size: number; root: string } {
  return { size, root: rootOf(size) };
}

function hashesOf(path: readonly Leaves[], leaves: readonly string[]): string[] {
  return path.map(({ start, end }) => MTH(leaves.slice(start, end)));
}

const known = new Map<string, string>();
/** The same for the leaves above, with cached hashes. */
function knownHashesOf(path: readonly Leaves[]): string[] {
  return path.map(({ start, end }) => {
    const hash = known.get(`${start} ${end}`) ?? MTH(TEXTS.slice(start, end));
    known.set(`${start} ${end}`, hash);
    return hash;
  });
}
