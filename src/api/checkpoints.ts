import type { LogTree } from '../../projections/merkleTree/logTree.ts';
import type { LogKey } from '../transparency/logKey.ts';
import { signCheckpoint } from '../transparency/signCheckpoint.ts';

/** How long a checkpoint is the latest one, in milliseconds. */
const CACHE_MS = 1_000;

type Head = LogTree['current'];
type Dependencies = { tree: Pick<LogTree, 'current'>; logKey: LogKey; now: () => Date };

/** The signed checkpoints of a log. They are made when they are asked for. */
export class Checkpoints {
  readonly #deps: Dependencies;
  #last: { head: Head; note: string; signedAt: number } | undefined;

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  /** The checkpoint of the log, at most a second old. @throws ViewBehind */
  latest(): string {
    const { current } = this.#deps.tree;
    return this.#isLatest(current) && this.#last ? this.#last.note : this.of(current);
  }

  /** The checkpoint of a tree. */
  of(head: Head): string {
    const last = this.#last;
    if (last && last.head.size === head.size && last.head.root === head.root) return last.note;
    const note = signCheckpoint(head, this.#deps.logKey);
    this.#last = { head, note, signedAt: this.#now() };
    return note;
  }

  /** Whether the last checkpoint is recent, and of a tree from which this one has grown. */
  #isLatest({ logId, size }: Head): boolean {
    if (!this.#last) return false;
    const { head, signedAt } = this.#last;
    const age = this.#now() - signedAt;
    return age >= 0 && age < CACHE_MS && head.logId === logId && head.size <= size;
  }

  #now(): number {
    return this.#deps.now().getTime();
  }
}
