/** Bytes; with about 50 million entries half of the bits are set. */
const SIZE = 32 * 1024 * 1024;
const BITS = SIZE * 8;
/** Bytes that are allocated at a time: a short log needs few of them. */
const PAGE_SIZE = 4 * 1024;
const HASHES = 4;

/**
 * A Bloom filter of strings (Bloom 1970) with double hashing (Kirsch and Mitzenmacher 2006): false positives,
 * no false negatives.
 */
export class BloomFilter {
  readonly #pages = new Array<Uint8Array | undefined>(SIZE / PAGE_SIZE);

  /** Adds an entry; returns whether it may have been added before. */
  add(entry: string): boolean {
    let [one, other] = [0x811c9dc5, 0x9747b28c];
    for (let i = 0; i < entry.length; i++) {
      one = Math.imul(one ^ entry.charCodeAt(i), 0x01000193); // FNV-1a
      other = Math.imul(other ^ entry.charCodeAt(i), 0x5bd1e995);
      other ^= other >>> 15;
    }
    let mayBeKnown = true;
    for (let i = 0; i < HASHES; i++) {
      const bit = ((one + i * other) >>> 0) % BITS;
      const byte = bit >>> 3;
      const page = this.#page(Math.floor(byte / PAGE_SIZE));
      const mask = 1 << (bit & 7);
      mayBeKnown &&= ((page[byte % PAGE_SIZE] as number) & mask) !== 0;
      (page[byte % PAGE_SIZE] as number) |= mask;
    }
    return mayBeKnown;
  }

  #page(number: number): Uint8Array {
    this.#pages[number] ??= new Uint8Array(PAGE_SIZE);
    return this.#pages[number];
  }
}
