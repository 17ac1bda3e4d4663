import { hash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type EventLog,
  hasIndices,
  type Position,
  type RecordedEvent,
  readToEnd,
  START,
} from '@event-sourced/event-log';
import { makeDraft } from '@event-sourced/event-log/disk';
import { EVENTS_ERASED } from '@event-sourced/event-log/erasure';
import {
  type ComparedView,
  type Problem,
  type Progress,
  ViewComparison,
} from '@event-sourced/event-log/views';
import { entryLeafHash, MerkleTree, type TreeHead } from '@event-sourced/tlog';
import { ErasureRules } from '../digest/erasureRules.ts';
import { entryOf, stubDigest } from '../digest/eventEntry.ts';
import { eventText } from '../digest/eventText.ts';
import { SavedTree } from '../view/savedTree.ts';
import { MERKLE_TREE } from '../view/treeTiles.ts';

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
  /** The number of erased events, and of their records. */
  erased: number;
  records: number;
  /** The first problems without a position, then the first problems with one. */
  problems: Problem[];
  problemCount: number;
};

type Options = {
  log: EventLog;
  /** Whether the positions of this store start at 1 and have no gaps. */
  gapless: boolean;
  views?: readonly ComparedView[];
  /** The directory for drafts of the views; if it cannot be written, the system's temporary directory is used. */
  dataDir?: string;
  isKnown: (type: string) => boolean;
  /** Why the service cannot have appended an event of a known type; undefined if it can. */
  findProblem: (event: RecordedEvent) => string | undefined;
  skip: ReadonlySet<string>;
  expect?: TreeHead | undefined;
  signal: AbortSignal;
  onProgress?: (progress: Progress) => void;
};

/** What a stub has instead of the text of an event. */
const STUB = { text: '', isCanonical: true };

/** The maximum number of listed problems with a position, and of problems without one. */
const MAX_LISTED = 100;
/** The lowest position in SQLite: an event may have been inserted before the first one. */
const LOWEST_POSITION = -(2n ** 63n);

/**
 * Reads the whole log once, and keeps only the indices of erased events: computes its root, and finds contradictions to the schemas, the order,
 * the views and the expected root. The store keeps the revisions of its streams. @throws StoreUnavailable
 */
export async function verifyLog(options: Options): Promise<Verification> {
  const { log, gapless, isKnown, findProblem, skip, expect, signal, onProgress } = options;
  const found = new Problems();
  const tree = new MerkleTree();
  const counts = { unknown: 0, skipped: 0 };
  const erasures = new ErasureRules();
  let last = START;
  await using resources = new AsyncDisposableStack();
  let hasExpected = false;
  const comparisons = await openComparisons(options, found, resources);

  function checkExpectedRoot(): void {
    if (expect?.size !== tree.size) return;
    const root = tree.root();
    hasExpected = root === expect.root.toLowerCase();
    if (!hasExpected)
      found.add(`the first ${expect.size} events are not the expected events: their root is ${root}`);
  }

  function check(event: RecordedEvent): void {
    const { position, id, type } = event;
    const covered = coveredBy(event);
    const { entry, stub, isCanonical } = covered;
    erasures.add(tree.size, covered, stub);
    tree.append(entryLeafHash(entry));
    if (!isCanonical) found.add('it has no canonical form (RFC 8785)', position);
    if (gapless) found.add(gapBefore(position, last), position);
    else if (position <= last) found.add(`it follows position ${last}`, position);
    last = position;
    const isErasure = stub !== undefined || type === EVENTS_ERASED;
    if (!isErasure && !isKnown(type)) counts.unknown++;
    else if (!isErasure && skip.has(id)) counts.skipped++;
    else if (!isErasure) found.add(findProblem(event), position);
    checkExpectedRoot();
    for (const comparison of comparisons.values()) comparison?.apply(event);
  }

  const end = await log.lastPosition();
  checkExpectedRoot();
  const lowest = gapless ? await log.readEvent(LOWEST_POSITION) : undefined;
  if (lowest) check(lowest);
  for await (const { events } of readToEnd(log, { after: gapless ? LOWEST_POSITION : START, end, signal })) {
    for (const event of events) {
      if (event.position > end) break;
      check(event);
    }
    onProgress?.({ events: tree.size, position: last, end });
    if ((events.at(-1)?.position ?? START) >= end) break;
  }
  // The record of a stub that was read may follow the end that the log had at the beginning.
  if (erasures.unnamed.size > 0) {
    let index = tree.size;
    for await (const { events } of readToEnd(log, { after: last, signal }))
      for (const covered of events.map(coveredBy)) erasures.add(index++, covered, covered.stub);
  }
  await confirmErased(erasures, options);
  for (const { index, problem } of erasures.problems())
    found.add(`${problem}, index ${index}`, hasIndices(log) ? log.positionOf(index) : undefined);
  signal.throwIfAborted();
  if (expect && expect.size > tree.size)
    found.add(`the log has ${tree.size} events, fewer than the expected ${expect.size}`);
  const views: Verification['views'] = {};
  for (const [name, comparison] of comparisons) {
    for (const { problem, position, event } of comparison?.problems() ?? [])
      found.add(problem, event ? await positionOf(event, log) : position);
    views[name] = { upTo: comparison?.isDamaged ? undefined : comparison?.bookmark.position };
  }
  return {
    size: tree.size,
    root: tree.root(),
    position: last,
    ...(expect && { hasExpected }),
    views,
    ...counts,
    erased: erasures.erased,
    records: erasures.records,
    ...found.summary(),
  };
}

/** The position of the event that a view differs in; undefined if the log does not have it. */
async function positionOf({ after, offset }: { after: Position; offset: number }, log: EventLog) {
  let before = offset;
  for await (const { events } of readToEnd(log, { after })) {
    if (before < events.length) return events[before]?.position;
    before -= events.length;
  }
  return undefined;
}

/** What the root covers of an event: its entry, the digest in a stub, and only data that has a canonical form. */
function coveredBy(event: RecordedEvent) {
  const { type } = event;
  const stub = stubDigest(event);
  const { text, isCanonical } = stub ? STUB : eventText(event);
  const entry = entryOf(stub ?? { sha256: hash('sha256', text), type });
  return { entry, stub, isCanonical, type, data: isCanonical ? event.data : undefined };
}

/** Reads again what was read as an event and is named as erased: it may have been erased meanwhile. */
async function confirmErased(erasures: ErasureRules, { log, views }: Options): Promise<void> {
  if (erasures.unconfirmed.size === 0 || !hasIndices(log)) return;
  using tree = openSaved(views?.find(({ name }) => name === MERKLE_TREE.name)?.file);
  for (const index of erasures.unconfirmed.keys()) {
    const event = await log.readEvent(log.positionOf(index));
    const digest = event && stubDigest(event);
    const isInTree = tree !== undefined && index < tree.head.size;
    if (digest && (!isInTree || tree.entryAt(index) === entryOf(digest))) erasures.confirm(index, digest);
  }
}

/** The saved tree; undefined without one, or if it cannot be read, which its comparison reports. */
function openSaved(file?: string): SavedTree | undefined {
  try {
    return file !== undefined && existsSync(file) ? new SavedTree(file) : undefined;
  } catch {
    return undefined;
  }
}

/** Opens the files to compare; `resources` closes them. An unreadable file is a problem. */
async function openComparisons(
  { log, views = [], dataDir, skip }: Options,
  found: Problems,
  resources: AsyncDisposableStack,
): Promise<Map<string, ViewComparison | undefined>> {
  const comparisons = new Map<string, ViewComparison | undefined>();
  const logId = await log.logId();
  const existing = views.filter(({ file }) => existsSync(file));
  const dir = existing.length > 0 ? useDirectory(dataDir, resources) : '';
  for (const view of existing) {
    const draftFile = join(dir, `${view.name}.db`);
    comparisons.set(view.name, undefined);
    try {
      comparisons.set(view.name, resources.use(new ViewComparison({ ...view, logId, skip, draftFile })));
    } catch (error) {
      found.add(`cannot read the view ${view.file}: ${(error as Error).message}`);
    }
  }
  return comparisons;
}

/** A directory in the drafts of `dataDir`, or else in the system's temporary directory; `resources` removes it. */
function useDirectory(dataDir: string | undefined, resources: AsyncDisposableStack): string {
  try {
    if (dataDir !== undefined) return resources.use(makeDraft(dataDir)).dir;
  } catch {
    // it cannot be written
  }
  const dir = mkdtempSync(join(tmpdir(), 'verify-'));
  resources.defer(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

class Problems {
  #count = 0;
  readonly #withoutPosition: Problem[] = [];
  readonly #withPosition: { position: Position; problem: string }[] = [];

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

/** Describes the gap between two consecutive events, if positions start at 1 and have no gaps. */
function gapBefore(position: Position, last: Position): string | undefined {
  if (position <= START) return 'positions start at 1';
  const first = (last > START ? last : START) + 1n;
  if (position === first) return undefined;
  const missing =
    position === first + 1n ? `position ${first} is` : `positions ${first} to ${position - 1n} are`;
  return `${missing} missing before it`;
}
