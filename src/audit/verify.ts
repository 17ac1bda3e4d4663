import { LRUCache } from 'lru-cache';
import type { Fault, ViewComparison } from '../../projections/viewComparison.ts';
import { type EventLog, type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { readLog } from '../eventStore/readLog.ts';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import { plantCreatedFault } from '../plants/plant.ts';
import { leafText } from './leaf.ts';
import { SeenStreams } from './seenStreams.ts';

/** So many events make a log whose Merkle Tree Hash is `root`, in hexadecimal digits. */
export type Root = { size: number; root: string };

export type Verdict = Root & {
  /** Of the last event. */
  position: Position;
  /** How far the view was compared; undefined where there is none. */
  view: Position | undefined;
  /** Events of other types than are known here: they are in the root, and nothing else can be said of them. */
  foreign: number;
  /** Events that an operator has told the view to pass over. */
  skipped: number;
  /** Those of no position and the first of the others; and the number of all. */
  faults: Fault[];
  faultCount: number;
};

type Options = {
  log: EventLog;
  /** Whether the positions of this store have no gaps, and begin at 1. */
  gapless: boolean;
  view?: ViewComparison | undefined;
  skip: ReadonlySet<string>;
  expect?: Root | undefined;
  signal: AbortSignal;
  onProgress?: (progress: { events: number; position: Position; end: Position }) => void;
};

/** So many faults that have a position are listed. */
const LISTED = 100;
/** The lowest position that SQLite knows: an intruder's event may stand before the first. */
const BEFORE_ALL = -(2n ** 63n);

/**
 * Reads the whole log once, up to its present end, in constant memory: what it hashes to, and all that contradicts its
 * schema, its order, its streams, the view or the root that is expected.
 * @throws StoreUnavailable
 */
export async function verifyLog({
  log,
  gapless,
  view,
  skip,
  expect,
  signal,
  onProgress,
}: Options): Promise<Verdict> {
  const verdict: Omit<Verdict, keyof Root | 'faults'> = {
    position: START,
    view: view?.checkpoint.position,
    foreign: 0,
    skipped: 0,
    faultCount: 0,
  };
  const general: Fault[] = [];
  const placed: Required<Fault>[] = [];
  const report = (fault: string | undefined, position?: Position): void => {
    if (fault === undefined) return;
    verdict.faultCount++;
    if (position === undefined) general.push({ fault });
    else if (placed.length < LISTED) placed.push({ position, fault });
  };
  const reportAll = (faults: Fault[]): void => {
    for (const { fault, position } of faults) report(fault, position);
  };
  const tree = new MerkleTree();
  const revisions = revisionsOf(log);
  const isSameLog = view === undefined || view.isNew || view.checkpoint.mark === (await log.mark());
  if (!isSameLog) report('the view is of another log: it is built anew at the next start');
  const compared = isSameLog ? view : undefined;

  function expected(): void {
    if (expect?.size !== tree.size) return;
    const root = tree.root().toString('hex');
    if (root !== expect.root.toLowerCase())
      report(`the first ${expect.size} events are not those that were expected: their root is ${root}`);
  }

  async function* batches(): AsyncGenerator<readonly RecordedEvent[]> {
    const lowest = gapless ? await log.eventAt(BEFORE_ALL) : undefined;
    if (lowest) yield [lowest];
    for await (const { events } of readLog(log, { after: gapless ? BEFORE_ALL : START, signal }))
      yield events;
  }

  function check(event: RecordedEvent): void {
    const { position, id, type } = event;
    const { text, isCanonical } = leafText(event);
    tree.append(leafHash(text));
    if (!isCanonical) report('it has no canonical form (RFC 8785)', position);
    if (gapless) report(gapBefore(position, verdict.position), position);
    else if (position <= verdict.position) report(`it follows position ${verdict.position}`, position);
    verdict.position = position;
    if (type !== 'PlantCreated') verdict.foreign++;
    else if (skip.has(id)) verdict.skipped++;
    else report(plantCreatedFault(event), position);
    reportAll(compared?.compare(event) ?? []);
    expected();
  }

  const end = await log.end();
  expected();
  for await (const events of batches()) {
    for (const event of events) {
      if (event.position > end) break;
      check(event);
      if (!revisions.isFirst(event)) report(await revisions.fault(event), event.position);
    }
    onProgress?.({ events: tree.size, position: verdict.position, end });
    if ((events.at(-1)?.position ?? START) >= end) break;
  }
  signal.throwIfAborted();
  if (expect && expect.size > tree.size)
    report(`the log has ${tree.size} events, not the ${expect.size} that were expected`);
  for await (const fault of compared?.rest(log) ?? []) reportAll([fault]);
  placed.sort((a, b) => Number(a.position - b.position));
  return { size: tree.size, root: tree.root().toString('hex'), ...verdict, faults: [...general, ...placed] };
}

/** What is missing between two positions that follow each other, where positions begin at 1 and have no gaps. */
function gapBefore(position: Position, last: Position): string | undefined {
  if (position <= START) return 'positions begin at 1';
  const first = (last > START ? last : START) + 1n;
  if (position === first) return undefined;
  const missing =
    position === first + 1n ? `position ${first} is` : `positions ${first} to ${position - 1n} are`;
  return `${missing} missing before it`;
}

/** Of a stream that is longer not all can be looked through. */
const LONGEST = 1_000_000n;
/** Streams of more than one event that are remembered, so that the log need not be asked. */
const REMEMBERED = 10_000;

/** Revisions begin at 0 and have no gaps, and none is there twice; events have to come in log order. */
function revisionsOf(log: EventLog) {
  const seen = new SeenStreams();
  const last = new LRUCache<string, bigint>({ max: REMEMBERED });
  return {
    /** Whether an event is certainly the first of its stream, as nearly all are. */
    isFirst: ({ stream, revision }: RecordedEvent): boolean => !seen.add(stream) && revision === 0n,
    async fault({ stream, revision, position }: RecordedEvent): Promise<string | undefined> {
      if (revision < 0n) return 'revisions begin at 0';
      if (revision > 0n && last.get(stream) === revision - 1n) {
        last.set(stream, revision);
        return undefined;
      }
      const events = await log.readStream(stream, Number(revision < LONGEST ? revision + 2n : LONGEST));
      const twin = events.find((other) => other.revision === revision && other.position !== position);
      if (twin) return `revision ${revision} of its stream is also at position ${twin.position}`;
      const before = events.find((other) => other.revision === revision - 1n);
      if (revision > 0n && !(before && before.position < position))
        return `revision ${revision - 1n} of its stream is not before it`;
      last.set(stream, revision);
      return undefined;
    },
  };
}
