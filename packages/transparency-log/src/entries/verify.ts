import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  EVENTS_ERASED,
  type EventLog,
  type Position,
  parseErasure,
  type RecordedEvent,
  readToEnd,
  START,
} from '@event-sourced/event-log';
import { lockDraft } from '@event-sourced/event-log/disk';
import {
  type ComparedView,
  type Problem,
  type Progress,
  ViewComparison,
} from '@event-sourced/event-log/views';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { leafText } from './leaf.ts';
import { TreeComparison } from './treeComparison.ts';
import { UnnamedStubs } from './unnamedStubs.ts';

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
  /** The number of erased events. */
  erased: number;
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

/** What a stub has instead of the text of a leaf. */
const STUB = { text: '', isCanonical: true };

/** What is wrong with the record of an erasure. A copied log has other positions than its records. */
async function recordProblem(event: RecordedEvent, log: EventLog): Promise<string | undefined> {
  const erasure = parseErasure(event);
  if (!erasure) return `it is not a valid ${EVENTS_ERASED}`;
  if (erasure.log !== (await log.logId())) return undefined;
  for (const { position, leaf } of erasure.events)
    if ((await log.readEvent(position))?.erased !== leaf)
      return `it names position ${position}, where no event with this hash is erased`;
  return undefined;
}

/** The maximum number of listed problems with a position, and of problems without one. */
const MAX_LISTED = 100;
/** The lowest position in SQLite: an event may have been inserted before the first one. */
const LOWEST_POSITION = -(2n ** 63n);

/**
 * Reads the whole log once, in constant memory: computes its root, and finds contradictions to the schemas, the order,
 * the views and the expected root. The store keeps the revisions of its streams. @throws StoreUnavailable
 */
export async function verifyLog(options: Options): Promise<Verification> {
  const { log, gapless, isKnown, findProblem, skip, expect, signal, onProgress } = options;
  const found = new Problems();
  const tree = new MerkleTree();
  const counts = { unknown: 0, skipped: 0, erased: 0 };
  const unnamed = new UnnamedStubs();
  let records: RecordedEvent[] = [];
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
    const { text, isCanonical } = event.erased === undefined ? leafText(event) : STUB;
    const leaf = event.erased ?? leafHash(text);
    tree.append(leaf);
    if (!isCanonical) found.add('it has no canonical form (RFC 8785)', position);
    if (gapless) found.add(gapBefore(position, last), position);
    else if (position <= last) found.add(`it follows position ${last}`, position);
    last = position;
    unnamed.add(event, tree.size);
    if (event.erased !== undefined) counts.erased++;
    else if (type === EVENTS_ERASED) records.push(event);
    else if (!isKnown(type)) counts.unknown++;
    else if (skip.has(id)) counts.skipped++;
    else found.add(findProblem(event), position);
    checkExpectedRoot();
    for (const comparison of comparisons.values()) comparison?.apply(event, leaf);
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
    for (const event of records) found.add(await recordProblem(event, log), event.position);
    records = [];
    onProgress?.({ events: tree.size, position: last, end });
    if ((events.at(-1)?.position ?? START) >= end) break;
  }
  // The record of a stub that was read may follow the end of the log at the beginning.
  if (unnamed.stubs.size > 0)
    for await (const { events } of readToEnd(log, { after: last, signal }))
      for (const event of events) if (event.erased === undefined) unnamed.add(event, tree.size);
  for (const [leaf, ordinal] of unnamed.stubs)
    found.add(`no later record of an erasure names the stub of event ${ordinal}: ${leaf}`);
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

type Comparison = Pick<ViewComparison, 'checkpoint' | 'isDamaged' | 'problems' | typeof Symbol.dispose> & {
  apply(event: RecordedEvent, leaf: string): void;
};

/** Opens the files to compare; `resources` closes them. An unreadable file is a problem. */
async function openComparisons(
  { log, views = [], treeFile, draftDir = tmpdir(), skip }: Options,
  found: Problems,
  resources: AsyncDisposableStack,
): Promise<Map<string, Comparison | undefined>> {
  const comparisons = new Map<string, Comparison | undefined>();
  const logId = await log.logId();
  const compare = (name: string, file: string, open: () => Comparison): void => {
    comparisons.set(name, undefined);
    try {
      comparisons.set(name, resources.use(open()));
    } catch (error) {
      found.add(`cannot read the view ${file}: ${(error as Error).message}`);
    }
  };
  const existing = views.filter(({ file }) => existsSync(file));
  const dir = existing.length > 0 ? useDirectory(draftDir, resources) : '';
  for (const view of existing) {
    const draftFile = join(dir, `${view.name}.db`);
    compare(view.name, view.file, () => new ViewComparison({ ...view, logId, skip, draftFile }));
  }
  if (treeFile !== undefined && existsSync(treeFile))
    compare('merkleTree', treeFile, () => new TreeComparison(treeFile, logId));
  return comparisons;
}

/** Creates a directory in `parent`, or else in the system's temporary directory; `resources` removes it. */
function useDirectory(parent: string, resources: AsyncDisposableStack): string {
  const make = (from: string): string => {
    const dir = mkdtempSync(join(from, 'verify-'));
    resources.defer(() => rmSync(dir, { recursive: true, force: true }));
    resources.use(lockDraft(dir));
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

/** Describes the gap between two consecutive events, if positions start at 1 and have no gaps. */
function gapBefore(position: Position, last: Position): string | undefined {
  if (position <= START) return 'positions start at 1';
  const first = (last > START ? last : START) + 1n;
  if (position === first) return undefined;
  const missing =
    position === first + 1n ? `position ${first} is` : `positions ${first} to ${position - 1n} are`;
  return `${missing} missing before it`;
}
