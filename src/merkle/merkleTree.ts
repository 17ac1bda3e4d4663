import { hash } from 'node:crypto';

// The Merkle Tree Hash of RFC 9162 section 2.1.1 with SHA-256, as in Certificate Transparency. Hashes are in
// lower-case hexadecimal, as in everything that is printed.

/** The hash of a leaf, from its bytes, or its text in UTF-8. */
export function leafHash(entry: string | Uint8Array): string {
  return hash('sha256', typeof entry === 'string' ? `\0${entry}` : Buffer.concat([LEAF_PREFIX, entry]));
}

const LEAF_PREFIX = Buffer.of(0);

/** The hash of an inner node, from its children. */
export function nodeHash(left: string, right: string): string {
  NODE.write(left, 1, 'hex');
  NODE.write(right, 33, 'hex');
  return hash('sha256', NODE);
}

/** 0x01, left, right; reused for each node. */
const NODE = Buffer.alloc(65, 1);

/** An append-only Merkle tree; with `size` leaves it holds at most log2(size) + 1 hashes. */
export class MerkleTree {
  size = 0;
  /** The roots of the perfect subtrees, from the largest to the smallest. */
  readonly #perfect: string[] = [];

  append(leaf: string): void {
    let node = leaf;
    // Each trailing 1 bit of the size is a subtree as large as the one that is being completed.
    for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2)
      node = nodeHash(this.#perfect.pop() as string, node);
    this.#perfect.push(node);
    this.size++;
  }

  /** The Merkle Tree Hash of all leaves. */
  root(): string {
    if (this.size === 0) return hash('sha256', '');
    return this.#perfect.reduceRight((right, left) => nodeHash(left, right));
  }
}
