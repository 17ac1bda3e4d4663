/** Bytes; they take memory as they are used. With 50 million entries, one in seven new ones is a false positive. */
const SIZE = 32 * 1024 * 1024;
const WORDS_PER_BLOCK = 8;
const BLOCKS = SIZE / (WORDS_PER_BLOCK * Uint32Array.BYTES_PER_ELEMENT);
/** Any odd numbers: each selects a bit of its word. */
const SALTS = [
  0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f, 0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09,
] as const;

/**
 * A Bloom filter of strings (Bloom 1970): false positives, no false negatives. An entry sets a bit in each word
 * of one block, so that it takes one access to memory (Putze, Sanders and Singler 2007, as in Apache Parquet).
 */
export class BloomFilter {
  readonly #words = new Uint32Array(BLOCKS * WORDS_PER_BLOCK);

  /** Adds an entry; returns whether it may have been added before. */
  add(entry: string): boolean {
    let [one, other] = [0x811c9dc5, 0x9747b28c];
    for (let i = 0; i < entry.length; i++) {
      one = Math.imul(one ^ entry.charCodeAt(i), 0x01000193); // FNV-1a
      other = Math.imul(other ^ entry.charCodeAt(i), 0x5bd1e995);
      other ^= other >>> 15;
    }
    const block = ((one >>> 0) % BLOCKS) * WORDS_PER_BLOCK;
    let mayBeKnown = true;
    for (let i = 0; i < WORDS_PER_BLOCK; i++) {
      const bit = 1 << (Math.imul(other, SALTS[i] as number) >>> 27);
      const word = this.#words[block + i] as number;
      if ((word & bit) !== 0) continue;
      mayBeKnown = false;
      this.#words[block + i] = word | bit;
    }
    return mayBeKnown;
  }
}
