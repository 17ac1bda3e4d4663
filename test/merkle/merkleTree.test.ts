import { createHash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leafHash, MerkleTree, nodeHash } from '../../src/merkle/merkleTree.ts';
import { MTH, REFERENCE_LEAVES, REFERENCE_ROOTS } from './rfc9162.ts';

describe('the root of a tree', () => {
  test('equals that of the reference tree of Certificate Transparency, for 0 to 8 leaves', () => {
    expect(rootsWhileGrowing(REFERENCE_LEAVES)).toEqual(REFERENCE_ROOTS);
  });

  test('equals the definition, for every size up to 70', () => {
    const texts = numbered(70);
    const defined = [...texts, ''].map((_, size) => MTH(texts.slice(0, size)));
    expect(rootsWhileGrowing(texts)).toEqual(defined);
    expect(new Set(defined).size).toBe(71);
  });

  test('equals the definition, for any leaves and any size', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 8 });
    const grown = fc.nat(2_000).chain((size) => fc.array(text, { minLength: size, maxLength: size }));
    fc.assert(
      fc.property(grown, (texts) => {
        expect(treeOf(texts).root()).toEqual(MTH(texts));
      }),
      { numRuns: 10 },
    );
  });

  test('differs for leaves in another order, with one more, or with nodes as leaves', () => {
    const root = rootOf(['fern', 'oak', 'moss']);
    const [fern, oak] = [leafHash('fern'), leafHash('oak')];
    const node = Buffer.from(fern + oak, 'hex').toString('latin1');
    const others = [
      ['oak', 'fern', 'moss'],
      ['fern', 'oak', 'moss', 'moss'],
      ['fernoak', 'moss'],
      [node, 'moss'],
    ];
    for (const texts of others) expect(rootOf(texts)).not.toBe(root);
    expect(leafHash(node)).not.toEqual(nodeHash(fern, oak));
  });
});

test('a leaf is hashed with the prefix 0x00, a node with the prefix 0x01', () => {
  const sha256 = (...parts: Buffer[]) => createHash('sha256').update(Buffer.concat(parts)).digest('hex');
  for (const text of ['', 'Fern', '\0', '\u007f\u0080\u2028', '🌱'])
    expect(leafHash(text)).toEqual(sha256(Buffer.of(0), Buffer.from(text, 'utf8')));
  const [left, right] = [leafHash('left'), leafHash('right')];
  const children = Buffer.from(left + right, 'hex');
  expect(nodeHash(left, right)).toEqual(sha256(Buffer.of(1), children));
});

test('a tree of 30 000 leaves keeps few of their hashes', () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const inUse = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const tree = new MerkleTree();
  const before = inUse();
  for (let i = 0; i < 30_000; i++) tree.append(leafHash(`${i}`));
  const kept = inUse() - before;
  expect(tree.root()).toEqual(MTH(numbered(30_000, '')));
  expect(kept).toBeLessThan(1_000_000); // all would be more than 1 920 000 bytes
});

function numbered(count: number, before = 'leaf '): string[] {
  return Array.from({ length: count }, (_, i) => `${before}${i}`);
}

function treeOf(texts: readonly string[]): MerkleTree {
  const tree = new MerkleTree();
  for (const text of texts) tree.append(leafHash(text));
  return tree;
}

function rootOf(texts: readonly string[]): string {
  return treeOf(texts).root();
}

/** The roots of one tree after each leaf, starting with the empty tree. */
function rootsWhileGrowing(texts: readonly string[]): string[] {
  const tree = new MerkleTree();
  const roots = [tree.root()];
  for (const text of texts) {
    tree.append(leafHash(text));
    expect(tree.size).toBe(roots.length);
    roots.push(tree.root());
  }
  return roots;
}
