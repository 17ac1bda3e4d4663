import type { RecordedEvent } from '../eventStore.ts';

// The table of a view. Its checksums detect what a disk, or a wrong write, has altered: not an attacker, who would
// alter them as well; `verify` compares the rows with the log.

/** A view as data: the thread that writes its file gets it as a message. */
export type Table = Readonly<{
  /** The view, as it is called in logs and messages. */
  name: string;
  /** The application ID in the header of its file. */
  applicationId: number;
  /** A file of another version is replaced, and the view rebuilt. */
  version: number;
  columns: Readonly<Record<string, 'TEXT' | 'INTEGER'>>;
  /** How many columns are the primary key: the first ones. Rows with the same first column are read together. */
  keyColumns: number;
  /** Columns by whose values rows are found, too. */
  lookup?: readonly string[];
  /** How much of the file its writer keeps in memory: more, the more its rows are scattered. */
  cacheKiB: number;
}>;

export type Value = string | bigint;
/** The values of a row in the order of the columns; the first ones are its key. */
export type Row = readonly Value[];
export type Key = readonly Value[];

/** The rows of a view, as its fold sees and changes them. */
export type Rows<R extends Row> = {
  get(...key: Key): R | undefined;
  /** A row with these values in the columns of `lookup`. */
  find(...values: Value[]): R | undefined;
  /** Adds a row, or replaces the one with its key. */
  put(row: R): void;
  delete(...key: Key): void;
};

/** What an event changes. It reads neither the clock nor anything but its arguments. @throws InvalidEvent */
export type Fold<R extends Row> = (event: RecordedEvent, rows: Rows<R>) => void;

/** A text that no other values have, unless they have control characters. */
export const textOf = (values: readonly Value[]): string => values.join('\0');

/** The values of a row by which it is found. */
export function lookupOf({ columns, lookup = [] }: Table, row: Row): Value[] {
  const names = Object.keys(columns);
  return lookup.map((name) => row[names.indexOf(name)] as Value);
}

/** Compares the first values of two rows in the order of the file. */
export function compareKeys(one: Key, other: Key, keyColumns: number): number {
  for (let i = 0; i < keyColumns; i++) {
    const [a, b] = [one[i] as Value, other[i] as Value];
    if (a !== b) return typeof a === 'string' ? compareTexts(a, b as string) : a < (b as bigint) ? -1 : 1;
  }
  return 0;
}

/** In the order of UTF-8, in which surrogate pairs follow all other characters. */
function compareTexts(one: string, other: string): number {
  for (let i = 0; i < one.length && i < other.length; i++) {
    const [a, b] = [one.charCodeAt(i), other.charCodeAt(i)];
    if (a !== b) return (isSurrogate(a) ? a + 0x10000 : a) - (isSurrogate(b) ? b + 0x10000 : b);
  }
  return one.length - other.length;
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;

const FNV_OFFSET = 0x811c9dc5 | 0;
const FNV_PRIME = 0x01000193;
/** Follows each value, and is no character. */
const SEPARATOR = 0x10000;

/** FNV-1a in 32 bits, over UTF-16 code units and halves of integers: in JavaScript, since a call costs more. */
function hash(values: readonly Value[], start: number, end: number, seed: number): number {
  let sum = seed;
  for (let i = start; i < end; i++) {
    const value = values[i] as Value;
    const number = typeof value === 'bigint' ? Number(value) : Number.NaN;
    if (Number.isSafeInteger(number)) {
      sum = Math.imul(sum ^ number, FNV_PRIME);
      sum = Math.imul(sum ^ Math.floor(number / 2 ** 32), FNV_PRIME);
    } else {
      const text = String(value);
      for (let j = 0; j < text.length; j++) sum = Math.imul(sum ^ text.charCodeAt(j), FNV_PRIME);
    }
    sum = Math.imul(sum ^ SEPARATOR, FNV_PRIME);
  }
  return sum;
}

/** The checksum of a row without its key. */
export const checksumOf = (row: Row, keyColumns: number): number =>
  hash(row, keyColumns, row.length, FNV_OFFSET);

/** The checksum of a row's key, its checksum and the key that follows: so that none is missing between them. */
export function linkOf(key: Key, checksum: number, next: Key | undefined, keyColumns: number): number {
  const ofKey = hash(key, 0, Math.min(key.length, keyColumns), checksum);
  return next ? hash(next, key[0] === next[0] ? 1 : 0, keyColumns, ofKey) : ofKey;
}
