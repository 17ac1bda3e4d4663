import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type EventLog,
  type Position,
  type RecordedEvent,
  readToEnd,
  START,
  StreamDeleted,
} from '@event-sourced/event-log';
import { type Problem, type Progress, type View, ViewComparison } from '@event-sourced/event-log/views';
import { LRUCache } from 'lru-cache';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { BloomFilter } from './bloomFilter.ts';
import { leafText } from './leaf.ts';

export type Verification = TreeHead & {
  /** The position of the last event. */
  position: Position;
  /** By name, how the views were compared; a view without a file is left out. */
  views: Record<string, ComparedView>;
  /** Events of unknown types: they are part of the root, and not checked otherwise. */
  unknown: number;
  /** Events in SKIP_EVENTS. */
  skipped: number;
  /** The first problems without a position, and the first of the others. */
  problems: Problem[];
  problemCount: number;
};

/** `upTo`: the position up to which the view was compared; undefined if its file cannot be read. */
export type ComparedView = { upTo: Position | undefined };

/** A view to compare with the log. `hashOf` is for one that needs the leaf of each event, which is computed anyway. */
export type ViewToCompare = {
  name: string;
  file: string;
  open: (file: string, hashOf: HashOf) => Promise<View>;
};
type HashOf = (event: RecordedEvent) => string;

type Options = {
  log: EventLog;
  /** Whether the positions of this store start at 1 and have no gaps. */
  gapless: boolean;
  views?: readonly ViewToCompare[];
  /**
   * Where the drafts of the views are written, in a directory that is removed at the end; in the system's temporary
   * directory if nothing can be written there.
   */
  draftDir?: string;
  /** Whether events of this type are known. */
  isKnown: (type: string) => boolean;
  /** Why an event of a known type is not one that the service has appended; undefined if it is one. */
  problemOf: (event: RecordedEvent) => string | undefined;
  skip: ReadonlySet<string>;
  expect?: TreeHead | undefined;
  signal: AbortSignal;
  onProgress?: (progress: Progress) => void;
};

/** Problems with a position, and those without, are listed up to this number each. */
const MAX_LISTED = 100;
/** The lowest position in SQLite: an event may have been inserted before the first one. */
const LOWEST_POSITION = -(2n ** 63n);

/**
 * Reads the whole log once, up to its current end, in constant memory: computes its Merkle root, and finds
 * what contradicts the schemas, the order, the streams, the views or the expected root.
 * @throws StoreUnavailable
 */
export async function verifyLog(options: Options): Promise<Verification> {
  const { log, gapless, isKnown, problemOf, skip, expect, signal, onProgress } = options;
  const found = new Problems();
  const tree = new MerkleTree();
  const streams = new StreamCheck(log);
  const counts = { unknown: 0, skipped: 0 };
  let last = START;
  await using resources = new AsyncDisposableStack();
  const leaves = new WeakMap<RecordedEvent, string>();
  const hashOf: HashOf = (event) => leaves.get(event) as string;
  const { views, comparisons } = await openViews(options, found, resources, hashOf);

  function checkExpectedRoot(): void {
    if (expect?.size !== tree.size) return;
    const root = tree.root();
    if (root !== expect.root.toLowerCase())
      found.add(`the first ${expect.size} events are not the expected ones: their root is ${root}`);
  }

  function check(event: RecordedEvent): void {
    const { position, id, type } = event;
    const { text, isCanonical } = leafText(event);
    const leaf = leafHash(text);
    tree.append(leaf);
    leaves.set(event, leaf);
    if (!isCanonical) found.add('it has no canonical form (RFC 8785)', position);
    if (gapless) found.add(gapBefore(position, last), position);
    else if (position <= last) found.add(`it follows position ${last}`, position);
    last = position;
    if (!isKnown(type)) counts.unknown++;
    else if (skip.has(id)) counts.skipped++;
    else found.add(problemOf(event), position);
    checkExpectedRoot();
  }

  async function checkStream(event: RecordedEvent): Promise<void> {
    found.add(await streams.problem(event), event.position);
  }

  const end = await log.lastPosition();
  checkExpectedRoot();
  const lowest = gapless ? await log.readEvent(LOWEST_POSITION) : undefined;
  if (lowest) {
    check(lowest);
    await checkStream(lowest);
  }
  for await (const { events } of readToEnd(log, { after: gapless ? LOWEST_POSITION : START, end, signal })) {
    for (const event of events) {
      if (event.position > end) break;
      check(event);
      if (!streams.isFirst(event)) await checkStream(event);
    }
    for (const comparison of comparisons.values()) await comparison.apply(events);
    onProgress?.({ events: tree.size, position: last, end });
    if ((events.at(-1)?.position ?? START) >= end) break;
  }
  signal.throwIfAborted();
  if (expect && expect.size > tree.size)
    found.add(`the log has ${tree.size} events, fewer than the expected ${expect.size}`);
  for (const [view, comparison] of comparisons) {
    for await (const { problem, position } of comparison.problems()) found.add(problem, position);
    if (!comparison.isDamaged) view.upTo = comparison.checkpoint.position;
  }
  return { size: tree.size, root: tree.root(), position: last, views, ...counts, ...found.summary() };
}

/** Opens what is compared, until `resources` are disposed of; a file that cannot be read is a problem. */
async function openViews(
  { log, views = [], draftDir = tmpdir(), skip }: Options,
  found: Problems,
  resources: AsyncDisposableStack,
  hashOf: HashOf,
): Promise<Pick<Verification, 'views'> & { comparisons: Map<ComparedView, ViewComparison> }> {
  const opened: Verification['views'] = {};
  const comparisons = new Map<ComparedView, ViewComparison>();
  const existing = views.filter(({ file }) => existsSync(file));
  const dir = existing.length > 0 ? useDirectory(draftDir, resources) : '';
  const logId = await log.logId();
  for (const { name, file, open: openView } of existing) {
    const open = (draft: string) => openView(draft, hashOf);
    const view = { upTo: undefined };
    try {
      const draftFile = join(dir, `${name}.db`);
      const comparison = await ViewComparison.open({ name, file, open, logId, skip, draftFile });
      comparisons.set(view, resources.use(comparison));
    } catch (error) {
      found.add(`cannot read the view ${file}: ${(error as Error).message}`);
    }
    opened[name] = view;
  }
  return { views: opened, comparisons };
}

/** A new directory in this one, or else in the system's temporary one, until `resources` are disposed of. */
function useDirectory(parent: string, resources: AsyncDisposableStack): string {
  const make = (from: string): string => {
    const dir = mkdtempSync(join(from, 'verify-'));
    resources.defer(() => rmSync(dir, { recursive: true, force: true }));
    return dir;
  };
  try {
    return make(parent);
  } catch {
    return make(tmpdir());
  }
}

class Problems {
  #count = 0;
  readonly #withoutPosition: Problem[] = [];
  readonly #withPosition: Required<Problem>[] = [];

  add(problem: string | undefined, position?: Position): void {
    if (problem === undefined) return;
    this.#count++;
    if (position !== undefined) {
      if (this.#withPosition.length < MAX_LISTED) this.#withPosition.push({ position, problem });
    } else if (this.#withoutPosition.length < MAX_LISTED) this.#withoutPosition.push({ problem });
  }

  summary(): Pick<Verification, 'problems' | 'problemCount'> {
    const ordered = this.#withPosition.sort((a, b) => Number(a.position - b.position));
    return { problems: [...this.#withoutPosition, ...ordered], problemCount: this.#count };
  }
}

/** The events of a stream; undefined if it was deleted or truncated, which the events of the log do not show. */
async function unlessDeleted(reading: Promise<RecordedEvent[]>): Promise<RecordedEvent[] | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof StreamDeleted) return undefined;
    throw error;
  }
}

/** What is missing between two consecutive positions, if positions start at 1 and have no gaps. */
function gapBefore(position: Position, last: Position): string | undefined {
  if (position <= START) return 'positions start at 1';
  const first = (last > START ? last : START) + 1n;
  if (position === first) return undefined;
  const missing =
    position === first + 1n ? `position ${first} is` : `positions ${first} to ${position - 1n} are`;
  return `${missing} missing before it`;
}

/** A longer stream is read in part. */
const MAX_STREAM_LENGTH = 1_000_000n;
/** Streams of several events whose last revision is cached. */
const CACHED_STREAMS = 10_000;

/** The revisions of a stream start at 0, have no gaps, and occur once; takes events in log order. */
class StreamCheck {
  readonly #log: EventLog;
  readonly #known = new BloomFilter();
  readonly #lastRevision = new LRUCache<string, bigint>({
    maxSize: CACHED_STREAMS, // unlike `max`, it allocates nothing in advance
    sizeCalculation: () => 1,
  });

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Whether an event is certainly the first of its stream, as nearly all are. */
  isFirst({ stream, revision }: RecordedEvent): boolean {
    return !this.#known.add(stream) && revision === 0n;
  }

  async problem({ stream, revision, position }: RecordedEvent): Promise<string | undefined> {
    if (revision < 0n) return 'revisions start at 0';
    if (revision === 0n || this.#lastRevision.get(stream) !== revision - 1n) {
      const limit = revision < MAX_STREAM_LENGTH ? revision + 2n : MAX_STREAM_LENGTH;
      const events = await unlessDeleted(this.#log.readStream(stream, Number(limit)));
      if (!events) return 'its stream was deleted';
      const duplicate = events.find((other) => other.revision === revision && other.position !== position);
      if (duplicate) return `revision ${revision} of its stream is also at position ${duplicate.position}`;
      const before = events.find((other) => other.revision === revision - 1n);
      if (revision > 0n && !(before && before.position < position))
        return `revision ${revision - 1n} of its stream is not before it`;
    }
    this.#lastRevision.set(stream, revision);
    return undefined;
  }
}
