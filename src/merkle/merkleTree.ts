import { hash } from 'node:crypto';

// The Merkle Tree Hash of RFC 9162 section 2.1.1 with SHA-256: the same trees as those of Certificate Transparency.

/** The hash of a leaf with this text (as UTF-8). */
export function leafHash(text: string): Buffer {
  return hash('sha256', `\0${text}`, 'buffer');
}

/** The hash of the node above two others. */
export function nodeHash(left: Buffer, right: Buffer): Buffer {
  left.copy(NODE, 1);
  right.copy(NODE, 33);
  return hash('sha256', NODE, 'buffer');
}

/** Written anew for each node. */
const NODE = Buffer.alloc(65, 1);

/** A tree to which leaves are added; of `size` leaves it keeps at most log2(size) + 1 hashes. */
export class MerkleTree {
  size = 0;
  /** The roots of the perfect trees that the leaves make up, from the largest to the smallest. */
  readonly #perfect: Buffer[] = [];

  append(leaf: Buffer): void {
    let node = leaf;
    // As in a counter in binary, each 1 at the end is a tree of the size of the new one.
    for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2)
      node = nodeHash(this.#perfect.pop() as Buffer, node);
    this.#perfect.push(node);
    this.size++;
  }

  /** The Merkle Tree Hash of the leaves so far. */
  root(): Buffer {
    if (this.size === 0) return hash('sha256', '', 'buffer');
    return this.#perfect.reduceRight((right, left) => nodeHash(left, right));
  }
}
