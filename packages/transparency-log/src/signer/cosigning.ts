import { setTimeout } from 'node:timers/promises';
import type { Logger } from '@event-sourced/event-log';
import { printable } from '@event-sourced/node/cli';
import { backOff } from '@event-sourced/node/time';
import { type Checkpoint, isSameHead, type ProveConsistency } from '@event-sourced/tlog';
import {
  type Cosignature,
  type CosignedCheckpoint,
  countCosignatures,
  type Policy,
  quorumTime,
} from '@event-sourced/tlog/witness';
import type { CheckpointFiles } from './checkpointFiles.ts';
import { WitnessClient } from './witnessClient.ts';

/** Observes witnesses, for metrics. `time` is in seconds since 1970. */
export type WitnessObserver = {
  onCosignature(witness: string, size: number, time: number): void;
  onWitnessFailure(witness: string): void;
  /** A quorum has cosigned a checkpoint, possibly again. Called at the start with 0 and 0 if there is none. */
  onQuorum(size: number, time: number): void;
};

type Dependencies = {
  policy: Policy;
  files: Pick<CheckpointFiles, 'readCosigned' | 'writeCosigned'>;
  /** The newest signed checkpoint; undefined if the log contradicts it, or there is none. */
  newest: () => Checkpoint | undefined;
  prove: ProveConsistency;
  logger: Pick<Logger, 'info' | 'warn'>;
  observer?: WitnessObserver | undefined;
  /** Between two rounds. */
  intervalMs?: number | undefined;
};

/** A witness. `failures`: consecutive ones. `retryAt`: the time of the next request, by `performance.now`. */
type Asked = {
  name: string;
  client: WitnessClient;
  asking?: Promise<void> | undefined;
  failures: number;
  retryAt: number;
};

/** A checkpoint that is being cosigned since `startedAt`, by `performance.now`, with the cosignatures so far. */
type Candidate = { checkpoint: Checkpoint; startedAt: number; cosignatures: Cosignature[] };

const ROUND_INTERVAL_MS = 1_000;
/** A log that does not grow is cosigned again: fresh cosignatures show that no larger checkpoint is withheld. */
const REFRESH_INTERVAL_MS = 5 * 60_000;
const MAX_RETRY_DELAY_MS = 60_000;
/** A single failure is not logged: another instance may have sent a larger size. */
const LOGGED_FAILURES = 3;

/**
 * Gets checkpoints cosigned by witnesses in the background, in rounds: at most one per second, each for the newest
 * size. A slow or failing witness misses rounds.
 */
export class Cosigning {
  readonly #deps: Dependencies;
  readonly #witnesses: readonly Asked[];
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #candidate: Candidate | undefined;
  #saving: Promise<void> = Promise.resolve();
  #isSaveFailing = false;
  /** The newest checkpoint with a quorum, with all its cosignatures. */
  cosigned: CosignedCheckpoint | undefined;

  constructor(deps: Dependencies) {
    this.#deps = deps;
    this.#witnesses = deps.policy.witnesses.map((witness) => {
      const client = new WitnessClient(witness);
      return { name: witness.key.name, client, failures: 0, retryAt: 0 };
    });
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await Promise.all(this.#witnesses.map(({ asking }) => asking)); // also of a witness that a quorum did not wait for
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const { intervalMs = ROUND_INTERVAL_MS } = this.#deps;
    await this.#restore();
    while (!signal.aborted) {
      const newest = this.#deps.newest();
      if (newest) await this.#round(newest);
      await setTimeout(intervalMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Restores the last cosigned checkpoint, if it satisfies the policy. */
  async #restore(): Promise<void> {
    const { files, policy, logger, observer } = this.#deps;
    try {
      const restored = await files.readCosigned();
      if (restored)
        this.#serve({ ...restored, time: countCosignatures(restored.note, policy, new Date()).time });
    } catch (error) {
      logger.warn(
        { reason: (error as Error).message },
        'the cosigned checkpoint cannot be read; waiting for a new one',
      );
    }
    if (!this.cosigned) observer?.onQuorum(0, 0);
  }

  /** The candidate, unless the log has grown or the cosignatures must be renewed. */
  #current(newest: Checkpoint): Candidate | undefined {
    const candidate = this.#candidate;
    const isSame = candidate && isSameHead(candidate.checkpoint, newest);
    return isSame && performance.now() - candidate.startedAt < REFRESH_INTERVAL_MS ? candidate : undefined;
  }

  /** Requests missing cosignatures, even with a quorum. Ends when a quorum has signed, or all requests have ended. */
  async #round(newest: Checkpoint): Promise<void> {
    const current = this.#current(newest);
    const startedAt = performance.now();
    const ready = this.#witnesses.filter(
      ({ name, asking, retryAt }) =>
        !asking && retryAt <= startedAt && !current?.cosignatures.some(({ key }) => key.name === name),
    );
    if (ready.length === 0) return;
    const candidate = current ?? { checkpoint: newest, startedAt, cosignatures: [] };
    this.#candidate = candidate;
    const hasQuorum = Promise.withResolvers<void>();
    if (quorumTime(candidate.cosignatures, this.#deps.policy) !== undefined) hasQuorum.resolve();
    for (const witness of ready) witness.asking = this.#ask(witness, candidate, hasQuorum.resolve);
    await Promise.race([hasQuorum.promise, Promise.all(ready.map(({ asking }) => asking))]);
  }

  async #ask(witness: Asked, candidate: Candidate, onQuorum: () => void): Promise<void> {
    const { prove, policy, logger, observer } = this.#deps;
    const { name, client } = witness;
    try {
      const cosignature = await client.cosign(candidate.checkpoint, prove, this.#closing.signal);
      observer?.onCosignature(name, candidate.checkpoint.size, cosignature.time);
      if (witness.failures >= LOGGED_FAILURES) logger.info({ witness: name }, 'witness available again');
      witness.failures = 0;
      candidate.cosignatures.push(cosignature);
      if (quorumTime(candidate.cosignatures, policy) === undefined) return;
      this.#saving = this.#saving.then(() => this.#save(candidate));
      await this.#saving;
      onQuorum();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#handleFailure(witness, error as Error);
    } finally {
      witness.asking = undefined;
    }
  }

  #handleFailure(witness: Asked, error: Error): void {
    const { logger, observer } = this.#deps;
    const { name } = witness;
    witness.failures++;
    witness.retryAt = performance.now() + backOff(witness.failures, MAX_RETRY_DELAY_MS);
    observer?.onWitnessFailure(name);
    if (witness.failures === LOGGED_FAILURES)
      logger.warn({ witness: name, reason: printable(error.message) }, 'witness does not cosign; retrying');
  }

  /** Saves and serves a checkpoint with a quorum, unless a larger one already has a quorum. */
  async #save({ checkpoint, cosignatures }: Candidate): Promise<void> {
    if (this.cosigned && this.cosigned.size > checkpoint.size) return;
    const note = checkpoint.note + cosignatures.map(({ line }) => line).join('');
    const time = quorumTime(cosignatures, this.#deps.policy) as number;
    try {
      await this.#deps.files.writeCosigned(note); // before serving it: after a restart, no older one may be served
      this.#isSaveFailing = false;
      this.#serve({ ...checkpoint, note, time });
    } catch (error) {
      const reason = (error as Error).message;
      if (!this.#isSaveFailing)
        this.#deps.logger.warn({ reason }, 'the cosigned checkpoint cannot be saved; retrying');
      this.#isSaveFailing = true;
      this.#candidate = undefined; // to be asked for again
    }
  }

  #serve(cosigned: CosignedCheckpoint): void {
    this.cosigned = cosigned;
    this.#deps.observer?.onQuorum(cosigned.size, cosigned.time);
  }
}
