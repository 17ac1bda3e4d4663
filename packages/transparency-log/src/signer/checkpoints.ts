import { type Logger, START } from '@event-sourced/event-log';
import { type Follower, REACHED_TIMEOUT_MS, ViewBehind } from '@event-sourced/event-log/views';
import { sleep, unlessLater } from '@event-sourced/node/time';
import {
  type Checkpoint,
  consistencyProofFromTiles,
  formatTreeHead,
  isSameHead,
  type TreeHead,
} from '@event-sourced/tlog';
import { signCheckpoint } from '@event-sourced/tlog/sign';
import type { Policy } from '@event-sourced/tlog/witness';
import type { MerkleTreeView } from '../view/treeView.ts';
import { CheckpointFiles, CheckpointFileUnusable } from './checkpointFiles.ts';
import { assertExtends, LogContradictsCheckpoint } from './contradiction.ts';
import { Cosigning, type WitnessObserver } from './cosigning.ts';
import type { LogKey } from './logKey.ts';

const INTERVAL_MS = 1_000;

/** Too few witnesses have cosigned a checkpoint yet. The message is for clients. */
export class NotYetCosigned extends Error {
  override readonly name = 'NotYetCosigned';
}

export const CHECKPOINT_REFUSALS = ['log_contradicts', 'file_unusable'] as const;
/** Why nothing is signed. */
type CheckpointRefusal = (typeof CHECKPOINT_REFUSALS)[number];

/** Observes checkpoints, for metrics. */
export type CheckpointObserver = WitnessObserver & {
  /** Nothing is signed for this reason; undefined: checkpoints are signed again. */
  onRefusal(refusal: CheckpointRefusal | undefined): void;
};

type Dependencies = {
  tree: Pick<Follower<MerkleTreeView>, 'readable' | 'reached' | 'save' | 'view'>;
  logKey: LogKey;
  /** The directory of the last checkpoint. Another process must not sign there. */
  dataDir: string;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Without a policy, no witness cosigns. */
  witnesses?: Policy | undefined;
  observer?: CheckpointObserver | undefined;
  intervalMs?: number | undefined;
};

/**
 * Publishes the checkpoints of a log: each second, if the log has grown. A checkpoint is recorded in a file before anyone
 * gets it. Nothing is signed that does not extend the last one.
 */
export class Checkpoints {
  readonly #deps: Dependencies;
  readonly #files: CheckpointFiles;
  readonly #cosigning: Cosigning | undefined;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  /** The last signed checkpoint; undefined until its file was read, and if there is none. */
  #signed: Checkpoint | undefined;
  #refusal: LogContradictsCheckpoint | CheckpointFileUnusable | undefined;
  /** Whether the tree was rebuilt since it last extended the signed checkpoint. */
  #wasRebuilt = false;
  #published = Promise.withResolvers<void>();

  constructor(deps: Dependencies) {
    this.#deps = deps;
    const { logKey, dataDir, witnesses, tree } = deps;
    this.#files = new CheckpointFiles(logKey.verifierKey, dataDir);
    this.#running = this.#run();
    const prove = async (from: number, to: number) =>
      tree.readable.head.size < to ? undefined : consistencyProofFromTiles(from, to, tree.readable.readTile);
    const newest = () => (this.#refusal instanceof LogContradictsCheckpoint ? undefined : this.#signed);
    this.#cosigning =
      witnesses && new Cosigning({ ...deps, policy: witnesses, files: this.#files, newest, prove });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await this.#cosigning?.close();
  }

  /**
   * The last signed checkpoint, also while the log is unavailable; with cosignatures if a quorum has signed it.
   * @throws LogContradictsCheckpoint, CheckpointFileUnusable; ViewBehind before the first one
   */
  get latest(): Checkpoint {
    if (this.#refusal instanceof LogContradictsCheckpoint) throw this.#refusal;
    if (this.#signed) return this.#withCosignatures(this.#signed);
    throw this.#refusal ?? new ViewBehind('No checkpoint is signed yet; retry.');
  }

  /** The newest checkpoint that a quorum of witnesses has cosigned; without witnesses, the latest. @throws NotYetCosigned */
  get cosigned(): Checkpoint {
    const { latest } = this;
    if (!this.#cosigning) return latest;
    if (this.#cosigning.cosigned) return this.#cosigning.cosigned;
    throw new NotYetCosigned('Too few witnesses have cosigned a checkpoint yet; retry.');
  }

  /**
   * A checkpoint of more than `index` entries, if possible a cosigned one. Waits for the next one if necessary.
   * @throws ViewBehind after a timeout; errors of `latest`
   */
  async covering(index: number): Promise<Checkpoint> {
    const deadline = performance.now() + REACHED_TIMEOUT_MS;
    for (;;) {
      const cosigned = this.#cosigning?.cosigned;
      const found = [cosigned, this.#signed].find((one) => one && one.size > index);
      if (found && this.latest) return found;
      if (this.#refusal) throw this.#refusal;
      const published = this.#published.promise.then(() => true);
      if (!(await unlessLater(Math.max(deadline - performance.now(), 0), published)))
        throw new ViewBehind('No checkpoint has it yet; retry.');
    }
  }

  /** Resolves if the tree extends the last signed checkpoint. @throws LogContradictsCheckpoint, CheckpointFileUnusable, ViewBehind */
  async assertTreeExtends(): Promise<void> {
    const { readable } = this.#deps.tree;
    await assertExtends(this.#signed ?? (await this.#files.readSigned()), readable.head, readable.readTile);
  }

  #withCosignatures(checkpoint: Checkpoint): Checkpoint {
    const cosigned = this.#cosigning?.cosigned;
    return cosigned && isSameHead(cosigned, checkpoint) ? cosigned : checkpoint;
  }

  async #run(): Promise<void> {
    const { tree, intervalMs = INTERVAL_MS } = this.#deps;
    const { signal } = this.#closing;
    const publish = (): Promise<void> =>
      this.#publish().then(
        () => this.#report(undefined),
        (error) => this.#report(error),
      );
    await publish();
    await Promise.race([sleep(intervalMs, signal), tree.reached(START).catch(() => {})]);
    while (!signal.aborted) {
      await publish();
      await sleep(intervalMs, signal);
    }
  }

  /** Signs the tree if it has grown. @throws ViewBehind, LogContradictsCheckpoint, CheckpointFileUnusable */
  async #publish(): Promise<void> {
    const { tree, logKey } = this.#deps;
    this.#signed ??= await this.#files.readSigned();
    const { size, root } = tree.readable.head;
    await this.#assertExtends({ size, root });
    if (size === this.#signed?.size) return;
    tree.save(); // a proof from the file has this checkpoint
    const checkpoint = { size, root, origin: logKey.origin, note: signCheckpoint({ size, root }, logKey) };
    await this.#files.writeSigned(checkpoint.note);
    this.#signed = checkpoint;
    this.#published.resolve();
    this.#published = Promise.withResolvers();
  }

  /** Rebuilds a tree that contradicts the signed checkpoint once: its file may have been altered, not the log. */
  async #assertExtends(head: TreeHead): Promise<void> {
    const { tree } = this.#deps;
    try {
      await assertExtends(this.#signed, head, tree.readable.readTile);
      this.#wasRebuilt = false;
    } catch (error) {
      const hasOtherRoot = error instanceof LogContradictsCheckpoint && error.head.size >= error.signed.size;
      if (!hasOtherRoot || this.#wasRebuilt) throw error;
      this.#wasRebuilt = true;
      tree.view.discard(error.message);
    }
  }

  /** Reports once why nothing is signed, and once that checkpoints are signed again. Other errors are those of a follower. */
  #report(error: unknown): void {
    const { logger, observer } = this.#deps;
    const refusal =
      error instanceof LogContradictsCheckpoint || error instanceof CheckpointFileUnusable
        ? error
        : undefined;
    const isSame = refusal?.name === this.#refusal?.name;
    if (error && !refusal && !(error instanceof ViewBehind))
      logger.error({ err: error }, 'publishing a checkpoint failed; retrying');
    if (isSame || (error && !refusal)) return;
    this.#refusal = refusal;
    if (!refusal) {
      observer?.onRefusal(undefined);
      logger.info('checkpoints are signed again');
    } else if (refusal instanceof LogContradictsCheckpoint) {
      observer?.onRefusal('log_contradicts');
      const { signed, head } = refusal;
      logger.error(
        { signed: formatTreeHead(signed), log: formatTreeHead(head), file: this.#files.signedFile },
        'the log contradicts its last signed checkpoint; nothing is signed until the log is restored, or LOG_KEY_FILE and LOG_ORIGIN are changed',
      );
    } else {
      observer?.onRefusal('file_unusable');
      logger.error(
        { reason: refusal.message },
        'the signed checkpoint cannot be read or saved; nothing is signed',
      );
    }
  }
}
