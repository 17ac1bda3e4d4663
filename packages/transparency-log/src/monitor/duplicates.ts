import { hash } from 'node:crypto';
import { BLOOM_FILTER_WORDS, BloomFilter } from '../entries/bloomFilter.ts';
import type { LeafEvent } from '../entries/leaf.ts';

/** The rest is not compared: each takes memory. */
const MAX_CANDIDATES = 10_000;
/** Of longer ones, the hash is kept. */
const MAX_KEY_LENGTH = 100;
export const DUPLICATES_WORDS = 2 * BLOOM_FILTER_WORDS;

/**
 * Finds events with the ID, or the stream and revision, of an earlier one, in bounded memory. The first pass
 * finds all of them and a few others, the second one compares those.
 */
export class Duplicates {
  /** The content of both filters: all that is kept from one run to the next. */
  readonly words: Uint32Array;
  readonly #ids: BloomFilter;
  readonly #revisions: BloomFilter;
  /** What may have occurred twice, with the ordinal of the first event that has it, once the second pass finds it. */
  readonly #candidates = new Map<string, number | undefined>();
  isIncomplete = false;

  /** By default no event is known; otherwise those of an earlier run, whose words these are. */
  constructor(words: Uint32Array = new Uint32Array(DUPLICATES_WORDS)) {
    this.words = words;
    this.#ids = new BloomFilter(words.subarray(0, BLOOM_FILTER_WORDS));
    this.#revisions = new BloomFilter(words.subarray(BLOOM_FILTER_WORDS));
  }

  get hasCandidates(): boolean {
    return this.#candidates.size > 0;
  }

  /** Takes an event of an earlier run, which is not compared with those before it. */
  addEarlier(event: LeafEvent): void {
    const { id, revision } = keysOf(event);
    this.#ids.add(id);
    this.#revisions.add(revision);
  }

  /** The first pass: takes each event, in log order. */
  add(event: LeafEvent): void {
    const { id, revision } = keysOf(event);
    if (this.#ids.add(id)) this.#addCandidate(id);
    if (this.#revisions.add(revision)) this.#addCandidate(revision);
  }

  /** The second pass: what an event has in common with an earlier one, in a sentence; undefined if nothing. */
  problem(event: LeafEvent, ordinal: number): string | undefined {
    const { id, revision } = keysOf(event);
    const sameId = this.#firstWith(id, ordinal);
    const sameRevision = this.#firstWith(revision, ordinal);
    if (sameId !== undefined) return `its ID is also that of event ${sameId}`;
    if (sameRevision === undefined) return undefined;
    return `revision ${event.revision} of its stream is also event ${sameRevision}`;
  }

  #addCandidate(key: string): void {
    if (this.#candidates.size < MAX_CANDIDATES) this.#candidates.set(key, undefined);
    else this.isIncomplete ||= !this.#candidates.has(key);
  }

  #firstWith(key: string, ordinal: number): number | undefined {
    if (!this.#candidates.has(key)) return undefined;
    const first = this.#candidates.get(key);
    if (first === undefined) this.#candidates.set(key, ordinal);
    return first;
  }
}

const keysOf = ({ id, stream, revision }: LeafEvent) => ({
  id: shortened(`id ${id}`),
  revision: shortened(`${revision} ${stream}`),
});

const shortened = (key: string): string => (key.length > MAX_KEY_LENGTH ? hash('sha256', key) : key);
