import type { ChildProcess } from 'node:child_process';
import { fileSize } from '@event-sourced/node/files';
import { unlessAborted } from '@event-sourced/node/time';
import { appendRequest } from '../appendRequest.ts';
import { WalThread } from '../disk/walThread.ts';
import {
  type ErasableStore,
  type IndexedLog,
  LogDamaged,
  NO_STREAM,
  type Position,
  type RecordedEvent,
  START,
  type StoreObserver,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../eventStore.ts';
import { traceAppend } from '../tracing/spans.ts';
import { AppendQueue } from './appendQueue.ts';
import { causeOf, openLogFile, recover, UnusableLog, wasNotClosed } from './file.ts';
import { type StubRow, spaceToRewrite } from './overwrite.ts';
import type { CheckResult } from './quickCheckProcess.ts';
import { BATCH_SIZE, follow, prepareReads } from './read.ts';
import { startCheck, UncleanLog } from './uncleanLog.ts';

type Options = {
  file: string;
  /** Runs the WAL checkpoints; by default the log has its own thread. The caller closes it after the store. */
  walThread?: Pick<WalThread, 'walCheckpoint'> | undefined;
  now?: () => Date;
  /** Called before a log is created, and if an existing one has no events. If it throws, opening fails. */
  onEmpty?: (exists: boolean) => void;
  /** Called once when durability can no longer be guaranteed; the process must end. The default throws the error. */
  onFatal?: (error: Error) => void;
  /** Called if the log was not closed: it is checked in use. Rejects with LogDamaged, or if the check has failed. */
  onCheck?: (checked: Promise<void>) => void;
  /** Called once if the log is found damaged; then it accepts no more appends. */
  onDamage?: (error: LogDamaged) => void;
  /** Called after `onDamage` if the disk does not return the bytes of the log, with the reason. */
  onUnreadable?: (reason: string) => void;
  observer?: StoreObserver | undefined;
};

/**
 * The embedded log: one SQLite table, as in message-db. A writer thread commits the appends. This thread reads on its
 * own connection, which never waits for a commit. @throws UnusableLog
 */
export async function openSqliteStore(options: Options): Promise<ErasableStore> {
  try {
    return await open(options);
  } catch (error) {
    const { message } = causeOf(error, options.file);
    throw new UnusableLog(`cannot use the log ${options.file}: ${message}`, { cause: error });
  }
}

async function open(options: Options): Promise<ErasableStore> {
  const { file, now = () => new Date(), onFatal = fail, onCheck, onDamage, onUnreadable, observer } = options;
  if (fileSize(file) === 0) options.onEmpty?.(false);
  using opened = new DisposableStack();
  let unclean: UncleanLog | undefined;
  if (wasNotClosed(file)) {
    observer?.onUncleanStop();
    recover(file);
    unclean = opened.adopt(new UncleanLog(file), (log) => log.close());
  }
  const db = opened.use(openLogFile(file));
  const closing = new AbortController();
  let closed: Promise<void> | undefined;
  const damaged = new AbortController();
  const handleDamage = (error: LogDamaged): void => damaged.abort(error);
  const parsed = prepareReads(db, { onDamage: handleDamage });
  const forHashing = prepareReads(db, { onDamage: handleDamage, forHashing: true });
  const logId = await parsed.logId();
  const newest = new NewestEvents(await parsed.lastPosition());
  if (newest.position === START) options.onEmpty?.(true);
  const own = options.walThread ? undefined : new WalThread();
  const queue = await AppendQueue.start({
    file,
    logId,
    walThread: options.walThread ?? (own as WalThread),
    now,
    onFatal,
    onDamage: handleDamage,
    observer,
    onCommit: (events) => newest.add(events),
  });
  opened.move();
  let check: ChildProcess | undefined;
  damaged.signal.addEventListener('abort', () => {
    queue.refuse(damaged.signal.reason);
    onDamage?.(damaged.signal.reason);
    if (closed) return;
    check = startCheck(file);
    check.on('error', () => {}); // it could not be started
    check.on('message', (result: CheckResult) => {
      if (!closed && 'error' in result) onUnreadable?.(result.error);
      check?.kill('SIGKILL');
    });
  });
  if (unclean) {
    unclean.checked.catch((error) => error instanceof LogDamaged && handleDamage(error));
    onCheck?.(unclean.checked);
  }

  async function close(): Promise<void> {
    closing.abort();
    db.close(); // reads are refused from now on
    try {
      await queue.close();
    } finally {
      check?.kill('SIGKILL');
      unclean?.close();
      await own?.close();
    }
  }

  const openLog = (reads: ReturnType<typeof prepareReads>): IndexedLog => ({
    ...reads,
    async lastPosition() {
      if (!db.isOpen) throw new StoreUnavailable('the log is closed');
      return newest.position;
    },
    subscribe: ({ after, signal }) =>
      follow(
        after,
        AbortSignal.any([signal, closing.signal]),
        (position) => newest.after(position) ?? reads.readAll({ after: position, limit: BATCH_SIZE }),
        (position, signal) => newest.wait(position, signal),
      ),
    close: () => (closed ??= close()),
  });

  return {
    ...openLog(parsed),
    forHashing: openLog(forHashing),
    get appendsRefused() {
      return damaged.signal.reason?.message;
    },
    async append(stream, event, expectedRevision) {
      const request = appendRequest(stream, event, expectedRevision);
      return traceAppend(() => queue.append(request, event)).catch(async (error) => {
        if (!(error instanceof WrongExpectedRevision && expectedRevision === NO_STREAM)) throw error;
        const [first] = await parsed.readStream(stream, 1);
        throw new WrongExpectedRevision(stream, NO_STREAM, first && { existing: { first, logId } });
      });
    },
    async erase(stubs, records) {
      const rows = stubs.map(({ position, id, stream, type, data, metadata }): StubRow => {
        return [position, id, stream, type, JSON.stringify(data), JSON.stringify(metadata)];
      });
      const appended = records.map(({ stream, event }) => {
        return { request: appendRequest(stream, event, NO_STREAM), event };
      });
      return queue.erase(rows, appended);
    },
    async spaceToErase() {
      return spaceToRewrite(Number(newest.position), fileSize(file) + fileSize(`${file}-wal`));
    },
    scrub: () => queue.scrub(),
  };
}

function fail(error: Error): never {
  throw error;
}

/** The events of the last commit: subscribers at the end of the log need not read the file. */
class NewestEvents {
  /** The last position of the log. */
  position: Position;
  #after: Position;
  #events: readonly RecordedEvent[] = [];
  #added = Promise.withResolvers<void>();

  constructor(position: Position) {
    this.position = position;
    this.#after = position;
  }

  add(events: readonly RecordedEvent[]): void {
    const [first, last] = [events[0] as RecordedEvent, events.at(-1) as RecordedEvent];
    // If another program has written in between, subscribers read the file.
    const isConsecutive = first.position === this.position + 1n;
    this.#after = isConsecutive ? this.position : last.position;
    this.#events = isConsecutive ? events : [];
    this.position = last.position;
    this.#added.resolve();
    this.#added = Promise.withResolvers();
  }

  /** The events after exactly this position; undefined if they must be read from the file. */
  after(position: Position): { events: readonly RecordedEvent[]; isEnd: true } | undefined {
    return position === this.#after ? { events: this.#events, isEnd: true } : undefined;
  }

  /** Resolves when the log has an event after this position, or the signal aborts. */
  async wait(position: Position, signal: AbortSignal): Promise<void> {
    if (this.position <= position) await unlessAborted(this.#added.promise, signal);
  }
}
