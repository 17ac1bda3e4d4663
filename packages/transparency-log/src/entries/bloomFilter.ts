/** In bytes; unused pages take no memory. With 50 million entries, one in seven new entries is a false positive. */
const SIZE = 32 * 1024 * 1024;
const WORDS_PER_BLOCK = 8;
const BLOCKS = SIZE / (WORDS_PER_BLOCK * Uint32Array.BYTES_PER_ELEMENT);
/** Arbitrary odd numbers: each one selects a bit of its word. */
const SALTS = [
  0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f, 0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09,
] as const;

/**
 * A Bloom filter of strings (Bloom 1970): false positives, no false negatives. An entry sets a bit in each word of a
 * single block, which takes one memory access (Putze, Sanders and Singler 2007, as in Apache Parquet).
 */
export class BloomFilter {
  readonly #words = new Uint32Array(BLOCKS * WORDS_PER_BLOCK);

  /** Adds an entry; returns whether it may have been added before. */
  add(entry: string): boolean {
    let [blockHash, bitHash] = [0x811c9dc5, 0x9747b28c];
    for (let i = 0; i < entry.length; i++) {
      blockHash = Math.imul(blockHash ^ entry.charCodeAt(i), 0x01000193); // FNV-1a
      bitHash = Math.imul(bitHash ^ entry.charCodeAt(i), 0x5bd1e995);
      bitHash ^= bitHash >>> 15;
    }
    const block = ((blockHash >>> 0) % BLOCKS) * WORDS_PER_BLOCK;
    let mayBeKnown = true;
    for (let i = 0; i < WORDS_PER_BLOCK; i++) {
      const bit = 1 << (Math.imul(bitHash, SALTS[i] as number) >>> 27);
      const word = this.#words[block + i] as number;
      if ((word & bit) !== 0) continue;
      mayBeKnown = false;
      this.#words[block + i] = word | bit;
    }
    return mayBeKnown;
  }
}
