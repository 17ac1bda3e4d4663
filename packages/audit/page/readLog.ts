import { EVENT_ERASED, type EventDigest } from '@event-sourced/event-log/erasure';
import {
  consistencyProofFromTiles,
  readEntriesAfter,
  type TileOrEntries,
  type TreeHead,
  toHex,
  VerifiedTiles,
  verifyConsistency,
} from '@event-sourced/tlog';
import { cloudEventEntry, ErasureRules } from '@event-sourced/transparency-log/digest';
import { counted } from './text.ts';

/** Checkpoints are published once a second; witnesses may be slow. */
const MAX_CHECKPOINTS = 30;

/** The paragraph of the help about an alarm. */
export type Topic = 'tiles' | 'lost' | 'evidence' | 'erasures';

/** What the service shows contradicts what it has signed, or the rules of erasures. */
export class Contradiction extends Error {
  override readonly name = 'Contradiction';
  readonly topic: Topic;
  /** Names and values that show it. */
  readonly facts: readonly (readonly [string, string])[];
  /** The line of an event, and its index. */
  readonly line: string | undefined;
  readonly index: number | undefined;

  constructor(
    topic: Topic,
    message: string,
    facts: Contradiction['facts'] = [],
    line?: string,
    index?: number,
  ) {
    super(message);
    this.topic = topic;
    this.facts = facts;
    this.line = line;
    this.index = index;
  }
}

type Source = {
  read: (tile: TileOrEntries) => Promise<Uint8Array>;
  /** The lines of GET /events with this query. */
  lines: (query: Record<string, string>) => AsyncIterable<string>;
  /** The newest checkpoint, after its signature was verified. */
  newest: () => Promise<TreeHead>;
  /** Resolves after a second. */
  pause: () => Promise<unknown>;
  onProgress: (events: number, size: number) => void;
};

/** The tree head with which every event was compared, and the number of erased events and of their records. */
export type ComparedLog = TreeHead & { erased: number; records: number };

type Line = { type: string; data: unknown; position: string; entry: string; digest?: EventDigest };

/**
 * Reads all events that a signed tree head covers, and compares each with its entry in the tree. The record of an erasure
 * may follow them; then it reads on, up to a later checkpoint. @throws TileMismatch, Contradiction; Error if a later
 * checkpoint does not come
 */
export async function readLog(head: TreeHead, source: Source): Promise<ComparedLog> {
  const erasures = new ErasureRules();
  let tiles = await VerifiedTiles.open(head, source.read);
  let index = 0;
  let position: string | undefined;
  for (;;) {
    const first = index;
    for await (const line of comparedLines(index, position, tiles, source)) {
      erasures.add(index, line, line.digest);
      position = line.position;
      index++;
    }
    // The record of a stub is in the log when the stub can be read: it follows in the next round at the latest.
    if (![...erasures.unnamed].some((stub) => stub >= first)) break;
    tiles = await extendTree(tiles, position, source);
  }
  await confirmErased(erasures, tiles, source);
  const problems = erasures.problems();
  if (problems.length > 0) {
    const shown = problems.map(({ kind, index, problem }) => [`${kind}, index ${index}`, problem] as const);
    const [[where, problem] = ['', '']] = shown;
    throw new Contradiction('erasures', `${where}: ${problem}`, shown.slice(1, 20));
  }
  return { ...tiles.head, erased: erasures.erased, records: erasures.records };
}

/** The lines from `from` to the size of the tree, each with its entry. @throws Contradiction, TileMismatch */
async function* comparedLines(
  from: number,
  position: string | undefined,
  tiles: VerifiedTiles,
  source: Source,
): AsyncGenerator<Line> {
  const { size } = tiles.head;
  if (from === size) return;
  const entries = entriesAfter(from, tiles, source);
  let index = from;
  for await (const text of source.lines(after(position))) {
    const expected = (await entries.next()).value as string;
    const line = parseLine(text);
    if (line?.entry !== expected) throw mismatch(index, expected, text, line);
    yield line;
    index++;
    source.onProgress(index, size);
    if (index === size) return; // the signed tree head does not cover later events
  }
  const message = `the service shows ${counted(index, 'event')}, fewer than the ${size} that the log has signed`;
  throw new Contradiction('lost', message);
}

function mismatch(index: number, expected: string, text: string, line: Line | undefined): Contradiction {
  const facts = [
    ['Index', `${index}`],
    ['Entry of the line', line?.entry ?? 'none: the line is malformed'],
    ['Entry in the tree', expected],
  ] as const;
  const message = `the event at index ${index} is not the one in the tree`;
  return new Contradiction('tiles', message, facts, text, index);
}

const after = (position: string | undefined): Record<string, string> =>
  position === undefined ? {} : { after: position };

/** An event of a replay; undefined if it is malformed. */
function parseLine(text: string): Line | undefined {
  try {
    const event = JSON.parse(text);
    return { type: event.type, position: event.position, ...cloudEventEntry(event) };
  } catch {
    return undefined;
  }
}

/** The entries in hexadecimal, verified by their hashes in the tree. */
async function* entriesAfter(
  from: number,
  tiles: VerifiedTiles,
  { read }: Source,
): AsyncGenerator<string, undefined> {
  const entries = (index: number, width: number) => read({ level: 'entries', index, width });
  for await (const bundle of readEntriesAfter(from, tiles, { entries }))
    for (const entry of bundle.entries) yield toHex(entry);
}

/** The tree of a later checkpoint, which covers all events that the service shows now. @throws Contradiction, Error */
async function extendTree(
  tiles: VerifiedTiles,
  position: string | undefined,
  source: Source,
): Promise<VerifiedTiles> {
  const { head } = tiles;
  let shown = head.size;
  for await (const text of source.lines(after(position))) if (parseLine(text)) shown++;
  for (let tries = 0; tries < MAX_CHECKPOINTS; tries++) {
    if (tries > 0) await source.pause();
    const newest = await source.newest();
    if (newest.size < shown) continue;
    const later = await VerifiedTiles.open(newest, source.read);
    const proof = await consistencyProofFromTiles(head.size, newest.size, later.read);
    if (verifyConsistency(head, newest, proof)) return later;
    throw new Contradiction(
      'evidence',
      `the log of ${newest.size} events does not begin with its first ${head.size}`,
    );
  }
  throw new Error(
    `not checked: an event is erased, and its record may be among the ${shown} events that the service shows, but no checkpoint has them yet. Try again`,
  );
}

/** Events that were read before they were erased: the service must show stubs with their entries now. */
async function confirmErased(erasures: ErasureRules, tiles: VerifiedTiles, source: Source): Promise<void> {
  if (erasures.unconfirmed.size === 0) return;
  const stubs = new Map<string, EventDigest>();
  for await (const text of source.lines({ type: EVENT_ERASED })) {
    const { entry, digest } = parseLine(text) ?? {};
    if (entry && digest) stubs.set(entry, digest);
  }
  let index = erasures.unconfirmed.keys().reduce((least, one) => Math.min(least, one));
  for await (const entry of entriesAfter(index, tiles, source)) {
    const digest = stubs.get(entry);
    if (digest) erasures.confirm(index, digest);
    index++;
  }
}
