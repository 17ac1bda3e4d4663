/** Bytes; some 50 million names fill half of the bits. */
const SIZE = 32 * 1024 * 1024;
const BITS = SIZE * 8;
/** Bytes that are taken at a time: a short log does without most of them. */
const PAGE = 64 * 1024;
const HASHES = 4;

/**
 * The names of streams that have been met, in constant memory: a Bloom filter (Bloom 1970, with the double hashing of
 * Kirsch and Mitzenmacher 2006). It never forgets a name, but may take a new one for one that was met: then ask.
 */
export class SeenStreams {
  readonly #pages = new Array<Uint8Array | undefined>(SIZE / PAGE);

  /** Adds a name; whether it may have been there before. */
  add(stream: string): boolean {
    let [one, other] = [0x811c9dc5, 0x9747b28c];
    for (let i = 0; i < stream.length; i++) {
      one = Math.imul(one ^ stream.charCodeAt(i), 0x01000193); // FNV-1a
      other = Math.imul(other ^ stream.charCodeAt(i), 0x5bd1e995);
      other ^= other >>> 15;
    }
    let isKnown = true;
    for (let i = 0; i < HASHES; i++) {
      const bit = ((one + i * other) >>> 0) % BITS;
      const byte = bit >>> 3;
      const page = this.#page(Math.floor(byte / PAGE));
      const mask = 1 << (bit & 7);
      isKnown &&= ((page[byte % PAGE] as number) & mask) !== 0;
      (page[byte % PAGE] as number) |= mask;
    }
    return isKnown;
  }

  #page(number: number): Uint8Array {
    this.#pages[number] ??= new Uint8Array(PAGE);
    return this.#pages[number];
  }
}
