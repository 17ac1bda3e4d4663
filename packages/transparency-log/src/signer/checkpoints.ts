import type { EventLog, Logger } from '@event-sourced/event-log';
import { unlessAborted } from '@event-sourced/event-log/time';
import { type Follower, REACHED_TIMEOUT_MS, ViewBehind } from '@event-sourced/event-log/views';
import { consistencyProofFromTiles } from '../merkle/tiles.ts';
import { formatTreeHead, isSameHead, type TreeHead } from '../merkle/treeHead.ts';
import type { Checkpoint } from '../notes/checkpoint.ts';
import type { LogHead, MerkleTreeView } from '../view/treeView.ts';
import type { CosignedCheckpoint } from '../witness/cosignature.ts';
import type { Policy } from '../witness/policy.ts';
import {
  CheckpointFileUnusable,
  type CheckpointSigner,
  LogContradictsCheckpoint,
} from './checkpointSigner.ts';
import { Cosigning, type WitnessObserver } from './cosigning.ts';

const CACHE_MS = 1_000;
const CHECK_RETRY_INTERVAL_MS = 1_000;
const REPLAY_TIMEOUT_MS = 2_000;

const BEING_REBUILT = 'The Merkle tree is being rebuilt; retry.';

/** Too few witnesses have cosigned a checkpoint yet. The message is for clients. */
export class NotYetCosigned extends Error {
  override readonly name = 'NotYetCosigned';
}

/** The end of the log could not be read in time. */
class EndUnknown extends ViewBehind {}

export const CHECKPOINT_REFUSALS = ['log_contradicts', 'file_unusable'] as const;
/** Why nothing is signed. */
type CheckpointRefusal = (typeof CHECKPOINT_REFUSALS)[number];

/** Observes checkpoints, for metrics. */
export type CheckpointObserver = WitnessObserver & {
  /** Checkpoints are now refused for this reason; undefined: they are signed again. */
  onRefusal(refusal: CheckpointRefusal | undefined): void;
};

type Dependencies = {
  tree: Pick<Follower<MerkleTreeView>, 'notReady' | 'ready' | 'reached' | 'view' | 'onReady'>;
  signer: CheckpointSigner;
  log: EventLog;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  now: () => Date;
  /** Without a policy, no witness cosigns. */
  witnesses?: Policy | undefined;
  observer?: CheckpointObserver | undefined;
};

/** Whether a tree extends the last checkpoint. `failedAt`: time of the last retryable failure (ms). */
type TreeCheck = { isConsistent: boolean; done: Promise<void>; failedAt?: number };

/** The signed checkpoints of a log, created on demand. */
export class Checkpoints {
  readonly #deps: Dependencies;
  readonly #cosigning: Cosigning | undefined;
  /** The note is pending while it is being signed. */
  #latest: { head: TreeHead; note: Promise<string>; signedAt: number } | undefined;
  /** Replaced when the tree becomes ready, since it may have been rebuilt, and when the check is repeated. */
  #check: TreeCheck = { isConsistent: false, done: Promise.resolve() };
  /** The signed root that the tree did not have, for which it was rebuilt from the log. */
  #rebuiltForRoot: string | undefined;
  /** Why the last checkpoint was refused; undefined while checkpoints can be signed. */
  #refusal: CheckpointRefusal | undefined;
  #contradiction: LogContradictsCheckpoint | undefined;
  /** The position of the tree when the last wait of a replay timed out. */
  #lastWaitedAt: LogHead['position'] | undefined;

  constructor(deps: Dependencies) {
    this.#deps = deps;
    deps.tree.onReady = () => this.#checkTree();
    if (deps.tree.notReady === undefined) this.#checkTree();
    const { tree, witnesses } = deps;
    const head = () => (tree.notReady === undefined ? tree.view.head : undefined);
    const sign = (toSign: TreeHead) => this.#sign(toSign);
    this.#cosigning =
      witnesses && new Cosigning({ ...deps, policy: witnesses, head, sign, prove: this.#prove });
  }

  async close(): Promise<void> {
    await this.#cosigning?.close();
  }

  /**
   * The newest checkpoint that a quorum of witnesses has cosigned; without witnesses, the latest checkpoint.
   * @throws NotYetCosigned, LogContradictsCheckpoint; errors of `latest`
   */
  async cosigned(): Promise<string> {
    if (!this.#cosigning) return this.latest();
    if (this.#contradiction) throw this.#contradiction;
    const { cosigned } = this.#cosigning;
    if (!cosigned) throw new NotYetCosigned('Too few witnesses have cosigned a checkpoint yet; retry.');
    return cosigned.note;
  }

  /** The tree head for an inclusion proof of the entry at an index: the cosigned one, if its tree has the entry. */
  headWith(index: number): TreeHead | Checkpoint {
    const { head } = this.#deps.tree.ready;
    const cosigned = this.#cosigned;
    return cosigned && cosigned.size > index && cosigned.size <= head.size ? cosigned : head;
  }

  /**
   * The checkpoint of the log, with every event that it had a second ago. Waits until the tree has these events.
   * @throws ViewBehind, StoreUnavailable, LogContradictsCheckpoint, CheckpointFileUnusable
   */
  async latest(): Promise<string> {
    const recent = this.#recent;
    if (recent !== undefined) return recent;
    await this.caughtUp();
    this.#lastWaitedAt = undefined;
    return this.#recent ?? this.#signLatest();
  }

  /** Waits until the tree has every event that the log has now. @throws ViewBehind, StoreUnavailable */
  async caughtUp(timeoutMs = REACHED_TIMEOUT_MS): Promise<void> {
    const { tree, log } = this.#deps;
    const deadline = performance.now() + timeoutMs;
    const end = await unlessAborted(log.lastPosition(), AbortSignal.timeout(timeoutMs));
    if (end === undefined) throw new EndUnknown('The event store has not responded yet; retry.');
    await tree.reached(end, undefined, Math.max(deadline - performance.now(), 0));
  }

  /**
   * Signs the checkpoint of a tree; an already cosigned checkpoint keeps its cosignatures.
   * @throws ViewBehind, LogContradictsCheckpoint, CheckpointFileUnusable
   */
  async sign(head: TreeHead | Checkpoint): Promise<string> {
    return 'note' in head ? head.note : (this.#cosignedNote(head) ?? (await this.#sign(head)).note);
  }

  /** The cosigned checkpoint, unless the log contradicts a signed checkpoint. */
  get #cosigned(): CosignedCheckpoint | undefined {
    return this.#contradiction ? undefined : this.#cosigning?.cosigned;
  }

  #cosignedNote(head: TreeHead): string | undefined {
    const cosigned = this.#cosigned;
    return cosigned && isSameHead(cosigned, head) ? cosigned.note : undefined;
  }

  async #sign(head: TreeHead): Promise<Checkpoint> {
    const check = this.#check;
    try {
      const checkpoint = await this.#deps.signer.sign(head, this.#prove);
      this.#accept();
      if (!this.#check.isConsistent) this.#checkTree();
      return checkpoint;
    } catch (error) {
      throw this.#handle(error, check);
    }
  }

  /**
   * The tree over every event that the log has now; undefined if the tree is behind, or contradicts a signed
   * checkpoint. Does not wait for a tree that does not grow. @throws StoreUnavailable, LogReplaced
   */
  async currentHead(): Promise<LogHead | undefined> {
    const { tree } = this.#deps;
    const isUsable = (): boolean => tree.notReady === undefined && this.#check.isConsistent;
    if (tree.notReady === undefined) {
      const { failedAt } = this.#check;
      if (failedAt !== undefined && Math.abs(this.#now() - failedAt) >= CHECK_RETRY_INTERVAL_MS)
        this.#checkTree();
      await this.#check.done;
    }
    const { position } = tree.view.applied;
    if (!isUsable() || position === this.#lastWaitedAt) return undefined;
    try {
      await this.caughtUp(REPLAY_TIMEOUT_MS);
      return isUsable() ? tree.view.head : undefined;
    } catch (error) {
      if (!(error instanceof ViewBehind)) throw error;
      if (tree.notReady === undefined && position === tree.view.applied.position)
        this.#lastWaitedAt = error instanceof EndUnknown ? undefined : position;
      return undefined;
    }
  }

  /** The latest checkpoint, unless it was signed too long ago. */
  get #recent(): string | Promise<string> | undefined {
    if (!this.#latest || this.#deps.tree.notReady !== undefined) return undefined;
    const { head, note, signedAt } = this.#latest;
    const age = this.#now() - signedAt;
    return age >= 0 && age < CACHE_MS ? (this.#cosignedNote(head) ?? note) : undefined;
  }

  #signLatest(): Promise<string> {
    const { head } = this.#deps.tree.ready;
    const note = this.sign(head);
    const latest = { head, note, signedAt: this.#now() };
    this.#latest = latest;
    note.catch(() => {
      if (this.#latest === latest) this.#latest = undefined;
    });
    return note;
  }

  /** Checks the tree before the first request for a checkpoint, so that operators see a problem at the start. */
  #checkTree(): void {
    const check: TreeCheck = { isConsistent: false, done: Promise.resolve() };
    this.#check = check;
    check.done = this.#run(check).catch((error) => {
      if (!(error instanceof LogContradictsCheckpoint)) check.failedAt = this.#now();
      this.#handle(error, check);
    });
  }

  async #run(check: TreeCheck): Promise<void> {
    await this.#deps.signer.check(this.#deps.tree.ready.head, this.#prove);
    check.isConsistent = true;
    this.#rebuiltForRoot = undefined;
    // Only signing shows that the file works: a readable file may be on a full disk.
    if (this.#refusal !== undefined) await this.#sign(this.#deps.tree.ready.head).catch(() => {}); // already handled
  }

  /** Converts an error of the signer. A tree that contradicts a signed checkpoint is rebuilt once. */
  #handle(error: unknown, check: TreeCheck): unknown {
    const { tree, signer } = this.#deps;
    if (error instanceof LogContradictsCheckpoint) {
      const { signed, head } = error;
      if (check !== this.#check) return new ViewBehind(BEING_REBUILT, { cause: error }); // a new tree is ready by now
      if (head.size >= signed.size && this.#rebuiltForRoot !== signed.root) {
        this.#rebuiltForRoot = signed.root;
        if (tree.notReady === undefined) this.#discard(error.message); // its file may have been altered, not the log
      }
      if (tree.notReady !== undefined) return new ViewBehind(BEING_REBUILT, { cause: error });
      this.#contradiction = error;
      this.#refuse(
        'log_contradicts',
        { signed: formatTreeHead(signed), log: formatTreeHead(head), file: signer.file },
        'the log contradicts its last signed checkpoint; nothing is signed until the log is restored, or LOG_KEY_FILE and LOG_ORIGIN are changed',
      );
    } else if (error instanceof CheckpointFileUnusable) {
      this.#check.failedAt = this.#now();
      this.#refuse(
        'file_unusable',
        { reason: error.message },
        'the signed checkpoint cannot be read or saved; nothing is signed',
      );
    }
    return error;
  }

  #discard(reason: string): void {
    try {
      this.#deps.tree.view.discard(reason);
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'the Merkle tree cannot be replaced; retrying');
    }
  }

  #refuse(refusal: CheckpointRefusal, details: object, message: string): void {
    if (this.#refusal === refusal) return;
    this.#refusal = refusal;
    this.#deps.observer?.onRefusal(refusal);
    this.#deps.logger.error(details, message);
  }

  #accept(): void {
    if (this.#refusal === undefined) return;
    this.#refusal = undefined;
    this.#contradiction = undefined;
    this.#deps.observer?.onRefusal(undefined);
    this.#deps.logger.info('checkpoints are signed again');
  }

  readonly #prove = async (from: number, to: number): Promise<readonly string[] | undefined> => {
    const { tree } = this.#deps;
    if (tree.ready.head.size < to) await this.caughtUp(); // another process has signed a larger tree
    if (tree.ready.head.size < to) return undefined;
    return consistencyProofFromTiles(from, to, (tile) => tree.ready.readTile(tile));
  };

  #now(): number {
    return this.#deps.now().getTime();
  }
}
