import type { LogTree } from '../../projections/merkleTree/logTree.ts';
import { type EventLog, type Position, START } from '../eventStore/eventStore.ts';

/** Events per page. */
const PAGE_SIZE = 500;

type Tree = Pick<LogTree, 'current' | 'reached'>;

/** Waits until the tree has every event of its log. */
export class TreeEnd {
  readonly #tree: Tree;
  readonly #log: EventLog;
  /** The log was read up to here, and the last of its events that are in the tree, or will be, is at `last`. */
  #known: { logId: string; readTo: Position; last: Position } | undefined;

  constructor({ tree, log }: { tree: Tree; log: EventLog }) {
    this.#tree = tree;
    this.#log = log;
  }

  /**
   * Resolves once the tree has every event that the log has now. @throws ViewBehind after this time, five
   * seconds by default; StoreUnavailable, LogReplaced
   */
  async reached(timeoutMs?: number): Promise<void> {
    await this.#tree.reached(START, undefined, timeoutMs);
    const { logId, position } = this.#tree.current;
    const end = await this.#log.lastPosition();
    const known = this.#known;
    this.#known = undefined; // if the log was replaced, it is not the position of an event any more
    const isOfLog = known?.logId === logId && known.readTo <= end;
    let { readTo, last } = isOfLog && known.readTo > position ? known : { readTo: position, last: position };
    for (let isEnd = false; readTo < end && !isEnd; ) {
      const page = await this.#log.readAll({ after: readTo, limit: PAGE_SIZE });
      last = page.events.at(-1)?.position ?? last;
      ({ position: readTo, isEnd } = page);
    }
    this.#known = { logId, readTo, last };
    await this.#tree.reached(last, undefined, timeoutMs);
  }
}
