import { sha256 } from '#crypto';
import { concat, writeHex } from '../bytes.ts';

// The Merkle Tree Hash of RFC 9162 section 2.1.1 with SHA-256, as in Certificate Transparency. Hashes are in
// lower-case hexadecimal, the form in which they are printed.

/** The hash of a leaf, given as bytes or as text, which is encoded in UTF-8. */
export function leafHash(entry: string | Uint8Array): string {
  return sha256(typeof entry === 'string' ? `\0${entry}` : concat([LEAF_PREFIX, entry]));
}

/** The leaf hash of an entry in hexadecimal. */
export function entryLeafHash(entry: string): string {
  const leaf = entry.length === 64 ? LEAF : new Uint8Array(1 + entry.length / 2);
  writeHex(leaf, entry, 1);
  return sha256(leaf);
}

/** 0x00, an entry of 32 bytes; reused for each of these. */
const LEAF = new Uint8Array(33);

const LEAF_PREFIX = Uint8Array.of(0);

export function nodeHash(left: string, right: string): string {
  writeHex(NODE, left, 1);
  writeHex(NODE, right, 33);
  return sha256(NODE);
}

/** 0x01, left, right; reused for each node. */
const NODE = new Uint8Array(65).fill(1);

/** Called with the root of a perfect subtree of 2^height leaves. */
type Completed = (root: string, height: number) => void;

/** An append-only Merkle tree. With `size` leaves it holds at most log2(size) + 1 hashes. */
export class MerkleTree {
  size: number;
  readonly #perfect: string[];

  constructor(size = 0, perfect: readonly string[] = []) {
    this.size = size;
    this.#perfect = [...perfect];
  }

  /** The roots of the perfect subtrees that make up the tree, largest first. */
  get perfect(): readonly string[] {
    return this.#perfect;
  }

  /** Appends a leaf. Calls `completed` for each perfect subtree that the leaf completes, first for the leaf itself. */
  append(leaf: string, completed?: Completed): void {
    let node = leaf;
    let height = 0;
    completed?.(node, height);
    // Each trailing 1 bit of the size is a subtree of the same size as the subtree that is being completed.
    for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2) {
      node = nodeHash(this.#perfect.pop() as string, node);
      completed?.(node, ++height);
    }
    this.#perfect.push(node);
    this.size++;
  }

  /** The Merkle Tree Hash of all leaves. */
  root(): string {
    if (this.size === 0) return sha256('');
    return this.#perfect.reduceRight((right, left) => nodeHash(left, right));
  }
}
