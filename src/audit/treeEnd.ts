import type { LogTree } from '../../projections/merkleTree/logTree.ts';
import type { EventLog, Position } from '../eventStore/eventStore.ts';

/** Events per page. */
const PAGE_SIZE = 500;

type Tree = Pick<LogTree, 'current' | 'reached'>;

/** Waits until the tree has every event of its log. */
export class TreeEnd {
  readonly #tree: Tree;
  readonly #log: EventLog;
  /** The tree has every event of the log up to here, where the log may have an event that is not in the tree. */
  #known: { logId: string; position: Position } | undefined;

  constructor({ tree, log }: { tree: Tree; log: EventLog }) {
    this.#tree = tree;
    this.#log = log;
  }

  /** Resolves once the tree has every event that the log has now. @throws ViewBehind, StoreUnavailable, LogReplaced */
  async reached(): Promise<void> {
    const { logId, position } = this.#tree.current;
    const end = await this.#log.lastPosition();
    const known = this.#known?.logId === logId ? this.#known.position : position;
    this.#known = undefined; // if the log was replaced, it is not the position of an event any more
    let [after, last] = [known > position ? known : position, position];
    for (let isEnd = false; after < end && !isEnd; ) {
      const page = await this.#log.readAll({ after, limit: PAGE_SIZE });
      last = page.events.at(-1)?.position ?? last;
      ({ position: after, isEnd } = page);
    }
    await this.#tree.reached(last);
    this.#known = { logId, position: after };
  }
}
