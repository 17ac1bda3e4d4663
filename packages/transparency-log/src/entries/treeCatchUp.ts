import { assertReached, type EventLog, LogReplaced, type Position, START } from '@event-sourced/event-log';
import { unlessAborted } from '@event-sourced/event-log/time';
import { REACHED_TIMEOUT_MS, ViewBehind } from '@event-sourced/event-log/views';
import { TREE_NOT_UP_TO_DATE, type TreeThread } from '../view/treeThread.ts';

const PAGE_SIZE = 500;

type Tree = Pick<TreeThread, 'current' | 'read' | 'reached'>;
/** The log was read up to `to`; of its events that are in the tree, or will be, the last one is at `last`. */
type Progress = { logId: string; to: Position; last: Position };

/** The log could not be read to its end in time. The next attempt continues from there. */
export class LogNotRead extends ViewBehind {
  constructor() {
    super(TREE_NOT_UP_TO_DATE);
  }
}

/**
 * Waits until the tree has every event of its log. EventStoreDB's log also has other events: those that the tree's
 * thread has not read yet are read here, once for all who wait.
 */
export class TreeCatchUp {
  readonly #tree: Tree;
  readonly #log: EventLog;
  #read: Progress | undefined;
  #reading: Promise<void> | undefined;

  constructor({ tree, log }: { tree: Tree; log: EventLog }) {
    this.#tree = tree;
    this.#log = log;
  }

  /** Resolves once the tree has every event of now. @throws ViewBehind, StoreUnavailable, LogReplaced */
  async reached(timeoutMs = REACHED_TIMEOUT_MS): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    const timeLeft = () => Math.max(Math.floor(deadline - performance.now()), 0);
    await this.#tree.reached(START, undefined, timeoutMs);
    await this.#readToEnd(AbortSignal.timeout(timeLeft()));
    await this.#tree.reached(this.#progress.last, undefined, timeLeft());
  }

  /** Reads as far as the log has events now. @throws LogNotRead if the signal aborts before */
  async #readToEnd(signal: AbortSignal): Promise<void> {
    const earlier = this.#read?.to ?? START;
    const end = await unlessAborted(this.#log.lastPosition(), signal);
    if (end === undefined) throw new LogNotRead();
    if (earlier > end) this.#read = undefined; // another log
    for (let previous: Position | undefined; this.#progress.to < end; ) {
      if (signal.aborted) throw new LogNotRead();
      if (!this.#reading) {
        const { to } = this.#progress;
        if (to === previous) assertReached(end, to);
        previous = to;
        this.#reading = this.#readPage().finally(() => {
          this.#reading = undefined;
        });
      }
      await unlessAborted(this.#reading, signal);
    }
  }

  async #readPage(): Promise<void> {
    const { logId, to, last } = this.#progress;
    try {
      const { events, position } = await this.#log.readAll({ after: to, limit: PAGE_SIZE });
      this.#read = { logId, to: position, last: events.at(-1)?.position ?? last };
    } catch (error) {
      if (error instanceof LogReplaced) this.#read = undefined;
      throw error;
    }
  }

  /** At least as far as the tree. */
  get #progress(): Progress {
    const { current, read } = this.#tree;
    const own = this.#read;
    return own?.logId === current.logId && own.to > read.to ? own : { logId: current.logId, ...read };
  }
}
