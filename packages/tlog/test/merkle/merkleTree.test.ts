import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { leafHash, MerkleTree, nodeHash } from '../../src/merkle/merkleTree.ts';
import { MTH, REFERENCE_LEAVES, REFERENCE_ROOTS } from './rfc9162.ts';

describe('the root of a tree', () => {
  test('equals that of the reference tree of Certificate Transparency, for 0 to 8 leaves', () => {
    expect(rootsWhileGrowing(REFERENCE_LEAVES)).toEqual(REFERENCE_ROOTS);
  });

  test('equals the definition, for every size up to 70', () => {
    const texts = Array.from({ length: 70 }, (_, i) => `leaf ${i}`);
    const defined = [...texts, ''].map((_, size) => MTH(texts.slice(0, size)));
    expect(rootsWhileGrowing(texts)).toEqual(defined);
    expect(new Set(defined).size).toBe(71);
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
