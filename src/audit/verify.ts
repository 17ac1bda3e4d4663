import { LRUCache } from 'lru-cache';
import type { Progress } from '../../projections/follow.ts';
import type { TreeComparison } from '../../projections/merkleTree/treeComparison.ts';
import type { Problem, ViewComparison } from '../../projections/viewComparison.ts';
import {
  type EventLog,
  type Position,
  type RecordedEvent,
  START,
  StreamDeleted,
} from '../eventStore/eventStore.ts';
import { readToEnd } from '../eventStore/readEvents.ts';
import { leafHash } from '../merkle/merkleTree.ts';
import { TileWriter } from '../merkle/tileWriter.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { isKnownType, plantEventProblem } from '../plants/events.ts';
import { BloomFilter } from './bloomFilter.ts';
import { leafText } from './leaf.ts';

export type Verification = TreeHead & {
  /** The position of the last event. */
  position: Position;
  /** The position up to which the view was compared; undefined if there is no view, or it is damaged. */
  view: Position | undefined;
  /** The same for the file of the Merkle tree. */
  tree: Position | undefined;
  /** Events of unknown types: they are part of the root, and not checked otherwise. */
  unknown: number;
  /** Events in SKIP_EVENTS. */
  skipped: number;
  /** The problems without a position, and the first of the others. */
  problems: Problem[];
  problemCount: number;
};

type Options = {
  log: EventLog;
  /** Whether the positions of this store start at 1 and have no gaps. */
  gapless: boolean;
  view?: ViewComparison | undefined;
  tree?: TreeComparison | undefined;
  skip: ReadonlySet<string>;
  expect?: TreeHead | undefined;
  signal: AbortSignal;
  onProgress?: (progress: Progress) => void;
};

/** At most so many problems with a position are listed. */
const MAX_LISTED = 100;
/** The lowest position in SQLite: an event may have been inserted before the first one. */
const LOWEST_POSITION = -(2n ** 63n);

/**
 * Reads the whole log once, up to its current end, in constant memory: computes its Merkle root, and finds
 * what contradicts the schemas, the order, the streams, the view or the expected root.
 * @throws StoreUnavailable
 */
export async function verifyLog({
  log,
  gapless,
  view,
  tree: treeFile,
  skip,
  expect,
  signal,
  onProgress,
}: Options): Promise<Verification> {
  const found = new Problems();
  const tree = new TileWriter();
  const streams = new StreamCheck(log);
  const counts = { unknown: 0, skipped: 0 };
  let last = START;
  const logId = await log.logId();
  const isSameLog = (file: ViewComparison | TreeComparison | undefined): boolean =>
    file === undefined || file.isNew || file.checkpoint.logId === logId;
  if (!isSameLog(view)) found.add('the view belongs to another log: the next start rebuilds it');
  if (!isSameLog(treeFile)) found.add('the Merkle tree belongs to another log: the next start rebuilds it');
  const compared = isSameLog(view) ? view : undefined;
  const comparedTree = isSameLog(treeFile) ? treeFile : undefined;

  function checkExpectedRoot(): void {
    if (expect?.size !== tree.size) return;
    const root = tree.root();
    if (root !== expect.root.toLowerCase())
      found.add(`the first ${expect.size} events are not the expected ones: their root is ${root}`);
  }

  function check(event: RecordedEvent): void {
    const { position, id, type } = event;
    const { text, isCanonical } = leafText(event);
    tree.append(leafHash(text), position);
    if (!isCanonical) found.add('it has no canonical form (RFC 8785)', position);
    if (gapless) found.add(gapBefore(position, last), position);
    else if (position <= last) found.add(`it follows position ${last}`, position);
    last = position;
    if (!isKnownType(type)) counts.unknown++;
    else if (skip.has(id)) counts.skipped++;
    else found.add(plantEventProblem(event), position);
    compared?.add(event);
    comparedTree?.add(event);
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
    found.addAll((await compared?.problems()) ?? []);
    const tiles = tree.takeChanged();
    found.addAll(comparedTree?.problems(tiles) ?? []);
    onProgress?.({ events: tree.size, position: last, end });
    if ((events.at(-1)?.position ?? START) >= end) break;
  }
  signal.throwIfAborted();
  if (expect && expect.size > tree.size)
    found.add(`the log has ${tree.size} events, fewer than the expected ${expect.size}`);
  for await (const problem of compared?.remaining() ?? []) found.addAll([problem]);
  found.addAll(comparedTree?.remaining() ?? []);
  return {
    size: tree.size,
    root: tree.root(),
    position: last,
    view: view?.isDamaged ? undefined : view?.checkpoint.position,
    tree: treeFile?.isDamaged ? undefined : treeFile?.checkpoint.position,
    ...counts,
    ...found.summary(),
  };
}

class Problems {
  #count = 0;
  readonly #withoutPosition: Problem[] = [];
  readonly #withPosition: Required<Problem>[] = [];

  add(problem: string | undefined, position?: Position): void {
    if (problem === undefined) return;
    this.#count++;
    if (position === undefined) this.#withoutPosition.push({ problem });
    else if (this.#withPosition.length < MAX_LISTED) this.#withPosition.push({ position, problem });
  }

  addAll(problems: readonly Problem[]): void {
    for (const { problem, position } of problems) this.add(problem, position);
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
