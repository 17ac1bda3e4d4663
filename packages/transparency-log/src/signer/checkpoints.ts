import type { EventLog, Logger } from '@event-sourced/event-log';
import { unlessAborted } from '@event-sourced/event-log/time';
import { type Follower, REACHED_TIMEOUT_MS, ViewBehind } from '@event-sourced/event-log/views';
import { consistencyProofFromTiles } from '../merkle/tiles.ts';
import { isSameHead, type TreeHead } from '../merkle/treeHead.ts';
import type { Checkpoint } from '../notes/checkpoint.ts';
import type { LogHead, MerkleTreeView } from '../view/treeView.ts';
import type { CosignedCheckpoint } from '../witness/cosignature.ts';
import type { Policy } from '../witness/policy.ts';
import { type CheckpointSigner, LogContradictsCheckpoint } from './checkpointSigner.ts';
import { Cosigning, type WitnessObserver } from './cosigning.ts';
import { type CheckpointRefusal, isRefusal, Refusals } from './refusals.ts';

/** A checkpoint is signed again after this time at the earliest. */
const CACHE_MS = 1_000;
const REPLAY_TIMEOUT_MS = 2_000;

/** Too few witnesses have cosigned a checkpoint yet. The message is for clients. */
export class NotYetCosigned extends Error {
  override readonly name = 'NotYetCosigned';
}

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

/** The signed checkpoints of a log, created on demand. A tree that is ready is checked before a head of it is signed. */
export class Checkpoints {
  readonly #deps: Dependencies;
  readonly #refusals: Refusals;
  readonly #cosigning: Cosigning | undefined;
  /** Resolves if the tree extends the last signed checkpoint; undefined if a check has failed, and is due again. */
  #check: Promise<void> | undefined;
  /** Whether the tree was rebuilt since it last extended the signed checkpoint. */
  #wasRebuilt = false;
  /** The checkpoint that was requested last; its note is pending while it is being signed. */
  #latest: { head: TreeHead; note: Promise<string>; signedAt: number } | undefined;

  constructor(deps: Dependencies) {
    this.#deps = deps;
    const { tree, observer, witnesses } = deps;
    this.#refusals = new Refusals({ ...deps, onRefusal: (refusal) => observer?.onRefusal(refusal) });
    // Before the first request, so that operators see a problem at the start.
    tree.onReady = () => this.#startCheck();
    if (tree.notReady === undefined) this.#startCheck();
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
    const { current } = this.#refusals;
    if (current instanceof LogContradictsCheckpoint) throw current;
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
    if (!this.#recent) await this.caughtUp();
    const { head, note } = this.#recent ?? this.#signLatest();
    return this.#cosignedNote(head) ?? note;
  }

  /** Waits until the tree has every event that the log has now. @throws ViewBehind, StoreUnavailable */
  async caughtUp(timeoutMs = REACHED_TIMEOUT_MS): Promise<void> {
    const { tree, log } = this.#deps;
    const deadline = performance.now() + timeoutMs;
    const end = await unlessAborted(log.lastPosition(), AbortSignal.timeout(timeoutMs));
    if (end === undefined) throw new ViewBehind('The event store has not responded yet; retry.');
    await tree.reached(end, undefined, Math.max(deadline - performance.now(), 0));
  }

  /**
   * Signs the checkpoint of a tree; an already cosigned checkpoint keeps its cosignatures.
   * @throws ViewBehind, LogContradictsCheckpoint, CheckpointFileUnusable
   */
  async sign(head: TreeHead | Checkpoint): Promise<string> {
    return 'note' in head ? head.note : (this.#cosignedNote(head) ?? (await this.#sign(head)).note);
  }

  /**
   * The tree over every event that the log has now; undefined if the tree is behind, also after two seconds, or
   * contradicts a signed checkpoint. @throws StoreUnavailable, LogReplaced
   */
  async currentHead(): Promise<LogHead | undefined> {
    const { tree } = this.#deps;
    if (tree.notReady !== undefined) return undefined;
    try {
      await this.caughtUp(REPLAY_TIMEOUT_MS);
      await this.#checked();
      return tree.ready.head;
    } catch (error) {
      if (error instanceof ViewBehind || isRefusal(error)) return undefined;
      throw error;
    }
  }

  /** The cosigned checkpoint, unless the log contradicts a signed checkpoint. */
  get #cosigned(): CosignedCheckpoint | undefined {
    return this.#refusals.current instanceof LogContradictsCheckpoint ? undefined : this.#cosigning?.cosigned;
  }

  #cosignedNote(head: TreeHead): string | undefined {
    const cosigned = this.#cosigned;
    return cosigned && isSameHead(cosigned, head) ? cosigned.note : undefined;
  }

  get #recent() {
    const latest = this.#latest;
    if (!latest || this.#deps.tree.notReady !== undefined) return undefined;
    const age = this.#now() - latest.signedAt;
    return age >= 0 && age < CACHE_MS ? latest : undefined;
  }

  #signLatest() {
    const { head } = this.#deps.tree.ready;
    const latest = { head, note: this.sign(head), signedAt: this.#now() };
    this.#latest = latest;
    latest.note.catch(() => {
      if (this.#latest === latest) this.#latest = undefined;
    });
    return latest;
  }

  async #sign(head: TreeHead): Promise<Checkpoint> {
    await this.#checked();
    try {
      const checkpoint = await this.#deps.signer.sign(head, this.#prove);
      this.#refusals.end();
      return checkpoint;
    } catch (error) {
      this.#refusals.report(error);
      throw error;
    }
  }

  #checked(): Promise<void> {
    return this.#check ?? this.#startCheck();
  }

  /** Replaces a running check, which may be of the tree before it was rebuilt. */
  #startCheck(): Promise<void> {
    const check: Promise<void> = this.#checkTree(() => this.#check === check);
    this.#check = check;
    check.catch(() => {
      if (this.#check === check) this.#check = undefined;
    });
    return check;
  }

  /** Rebuilds a tree that contradicts a signed checkpoint once: its file may have been altered, not the log. */
  async #checkTree(isCurrent: () => boolean): Promise<void> {
    const { tree, signer } = this.#deps;
    try {
      await signer.check(tree.ready.head, this.#prove);
      this.#wasRebuilt = false;
    } catch (error) {
      if (isRefusal(error) && !isCurrent()) return this.#checked();
      const hasOtherRoot = error instanceof LogContradictsCheckpoint && error.head.size >= error.signed.size;
      if (hasOtherRoot && !this.#wasRebuilt) {
        const behind = tree.view.discard(error.message);
        this.#wasRebuilt = true;
        throw behind;
      }
      this.#refusals.report(error);
      throw error;
    }
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
