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
import {
  type ComparedView,
  type Problem,
  type Progress,
  ViewComparison,
} from '@event-sourced/event-log/views';
import { LRUCache } from 'lru-cache';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { MerkleTreeView } from '../view/treeView.ts';
import { BloomFilter } from './bloomFilter.ts';
import { leafText } from './leaf.ts';

export type Verification = TreeHead & {
  position: Position;
  /**
   * The position up to which each view was compared, by name; undefined if its file cannot be read. Views without a
   * file are missing.
   */
  views: Record<string, { upTo: Position | undefined }>;
  /** Whether the log begins with the expected tree head; undefined without one. */
  hasExpected?: boolean;
  /** The number of events of unknown types: they are part of the root, but not checked otherwise. */
  unknown: number;
  skipped: number;
  /** The first problems without a position, then the first problems with one. */
  problems: Problem[];
  problemCount: number;
};

type Options = {
  log: EventLog;
  /** Whether the positions of this store start at 1 and have no gaps. */
  gapless: boolean;
  views?: readonly ComparedView[];
  /** The file of the Merkle tree, to compare it as the view `merkleTree`. */
  treeFile?: string | undefined;
  /** The directory for drafts of the views; if it cannot be written, the system's temporary directory is used. */
  draftDir?: string;
  isKnown: (type: string) => boolean;
  /** Why the service cannot have appended an event of a known type; undefined if it can. */
  findProblem: (event: RecordedEvent) => string | undefined;
  skip: ReadonlySet<string>;
  expect?: TreeHead | undefined;
  signal: AbortSignal;
  onProgress?: (progress: Progress) => void;
};

/** The maximum number of listed problems with a position, and of problems without one. */
const MAX_LISTED = 100;
/** The lowest position in SQLite: an event may have been inserted before the first one. */
const LOWEST_POSITION = -(2n ** 63n);

/**
 * Reads the whole log once, in constant memory: computes its root, and finds contradictions to the schemas, the order,
 * the streams, the views and the expected root. @throws StoreUnavailable
 */
export async function verifyLog(options: Options): Promise<Verification> {
  const { log, gapless, isKnown, findProblem, skip, expect, signal, onProgress } = options;
  const found = new Problems();
  const tree = new MerkleTree();
  const streams = new StreamCheck(log);
  const counts = { unknown: 0, skipped: 0 };
  let last = START;
  await using resources = new AsyncDisposableStack();
  let leaf = '';
  let hasExpected = false;
  const comparisons = await openComparisons(options, () => leaf, found, resources);

  function checkExpectedRoot(): void {
    if (expect?.size !== tree.size) return;
    const root = tree.root();
    hasExpected = root === expect.root.toLowerCase();
    if (!hasExpected)
      found.add(`the first ${expect.size} events are not the expected events: their root is ${root}`);
  }

  function check(event: RecordedEvent): void {
    const { position, id, type } = event;
    const { text, isCanonical } = leafText(event);
    leaf = leafHash(text);
    tree.append(leaf);
    if (!isCanonical) found.add('it has no canonical form (RFC 8785)', position);
    if (gapless) found.add(gapBefore(position, last), position);
    else if (position <= last) found.add(`it follows position ${last}`, position);
    last = position;
    if (!isKnown(type)) counts.unknown++;
    else if (skip.has(id)) counts.skipped++;
    else found.add(findProblem(event), position);
    checkExpectedRoot();
    for (const comparison of comparisons.values()) comparison?.apply(event);
  }

  const end = await log.lastPosition();
  checkExpectedRoot();
  const lowest = gapless ? await log.readEvent(LOWEST_POSITION) : undefined;
  if (lowest) {
    check(lowest);
    found.add(await streams.problem(lowest), lowest.position);
  }
  for await (const { events } of readToEnd(log, { after: gapless ? LOWEST_POSITION : START, end, signal })) {
    for (const event of events) {
      if (event.position > end) break;
      check(event);
      if (!streams.isFirst(event)) found.add(await streams.problem(event), event.position);
    }
    onProgress?.({ events: tree.size, position: last, end });
    if ((events.at(-1)?.position ?? START) >= end) break;
  }
  signal.throwIfAborted();
  if (expect && expect.size > tree.size)
    found.add(`the log has ${tree.size} events, fewer than the expected ${expect.size}`);
  const views: Verification['views'] = {};
  for (const [name, comparison] of comparisons) {
    for (const { problem, position } of comparison?.problems() ?? []) found.add(problem, position);
    views[name] = { upTo: comparison?.isDamaged ? undefined : comparison?.checkpoint.position };
  }
  return {
    size: tree.size,
    root: tree.root(),
    position: last,
    ...(expect && { hasExpected }),
    views,
    ...counts,
    ...found.summary(),
  };
}

/** Opens the files to compare; `resources` closes them. An unreadable file is a problem. */
async function openComparisons(
  { log, views = [], treeFile, draftDir = tmpdir(), skip }: Options,
  toLeaf: () => string,
  found: Problems,
  resources: AsyncDisposableStack,
): Promise<Map<string, ViewComparison | undefined>> {
  const comparisons = new Map<string, ViewComparison | undefined>();
  const open = (draft: string) => MerkleTreeView.open(draft, { toLeaf });
  const tree = treeFile ? [{ name: 'merkleTree', file: treeFile, table: 'tiles', open }] : [];
  const existing = [...views, ...tree].filter(({ file }) => existsSync(file));
  const dir = existing.length > 0 ? useDirectory(draftDir, resources) : '';
  const logId = await log.logId();
  for (const view of existing) {
    comparisons.set(view.name, undefined);
    try {
      const comparison = new ViewComparison({
        ...view,
        logId,
        skip,
        draftFile: join(dir, `${view.name}.db`),
      });
      comparisons.set(view.name, resources.use(comparison));
    } catch (error) {
      found.add(`cannot read the view ${view.file}: ${(error as Error).message}`);
    }
  }
  return comparisons;
}

/** Creates a directory in `parent`, or else in the system's temporary directory; `resources` removes it. */
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

/** Ignores that a stream was deleted or truncated: the events of the log do not show it. */
function ignoreDeleted(error: unknown): undefined {
  if (!(error instanceof StreamDeleted)) throw error;
}

/** Describes the gap between two consecutive events, if positions start at 1 and have no gaps. */
function gapBefore(position: Position, last: Position): string | undefined {
  if (position <= START) return 'positions start at 1';
  const first = (last > START ? last : START) + 1n;
  if (position === first) return undefined;
  const missing =
    position === first + 1n ? `position ${first} is` : `positions ${first} to ${position - 1n} are`;
  return `${missing} missing before it`;
}

const MAX_STREAM_LENGTH = 1_000_000n;
/** The number of streams with several events whose last revision is cached. */
const CACHED_STREAMS = 10_000;

/** Checks that the revisions of each stream start at 0, have no gaps, and occur once. Takes events in log order. */
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

  /** Whether an event is certainly the first of its stream, like nearly all events. */
  isFirst({ stream, revision }: RecordedEvent): boolean {
    return !this.#known.add(stream) && revision === 0n;
  }

  async problem({ stream, revision, position }: RecordedEvent): Promise<string | undefined> {
    if (revision < 0n) return 'revisions start at 0';
    if (revision === 0n || this.#lastRevision.get(stream) !== revision - 1n) {
      const limit = revision < MAX_STREAM_LENGTH ? revision + 2n : MAX_STREAM_LENGTH;
      const events = await this.#log.readStream(stream, Number(limit)).catch(ignoreDeleted);
      if (!events) return 'its stream was deleted';
      const duplicate = events.find((event) => event.revision === revision && event.position !== position);
      if (duplicate) return `revision ${revision} of its stream is also at position ${duplicate.position}`;
      const before = events.find((event) => event.revision === revision - 1n);
      if (revision > 0n && !(before && before.position < position))
        return `revision ${revision - 1n} of its stream is not before it`;
    }
    this.#lastRevision.set(stream, revision);
    return undefined;
  }
}
