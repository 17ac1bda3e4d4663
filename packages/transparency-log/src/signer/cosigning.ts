import { setTimeout } from 'node:timers/promises';
import type { Logger } from '@event-sourced/event-log';
import { backOff } from '@event-sourced/event-log/time';
import type { TreeHead } from '../merkle/treeHead.ts';
import { printable } from '../notes/printable.ts';
import { type Cosignature, cosignaturesOf } from '../witness/cosignature.ts';
import { type Policy, quorumTime } from '../witness/policy.ts';
import { type SignedHead, WitnessClient } from '../witness/witnessClient.ts';
import type { CheckpointSigner, ProveConsistency } from './checkpointSigner.ts';

/** Gets what witnesses do, for metrics. `time`: in seconds since 1970. */
export type WitnessObserver = {
  onCosignature(witness: string, size: number, time: number): void;
  onWitnessFailure(witness: string): void;
  /** A quorum has signed a checkpoint, or the same one again; at the start 0 and 0 if none is known. */
  onQuorum(size: number, time: number): void;
};

type Dependencies = {
  policy: Policy;
  signer: CheckpointSigner;
  /** The tree as it is now; undefined if it cannot be signed now. */
  head: () => TreeHead | undefined;
  sign: (head: TreeHead) => Promise<string>;
  prove: ProveConsistency;
  logger: Pick<Logger, 'info' | 'warn'>;
  observer?: Partial<WitnessObserver> | undefined;
  /** Between two rounds. */
  intervalMs?: number;
};

/** A checkpoint that witnesses are asked for, with their cosignatures so far. */
type Candidate = SignedHead & { cosignatures: Map<WitnessClient, Cosignature> };

const ROUND_INTERVAL_MS = 1_000;
/** A log that does not grow is cosigned again: the time of a cosignature shows that the log is not withheld. */
const REFRESH_INTERVAL_MS = 5 * 60_000;
const MAX_RETRY_DELAY_MS = 60_000;
/** One failure may be that another instance has asked with a larger size. */
const LOGGED_FAILURES = 3;

/**
 * Has checkpoints cosigned by witnesses, in the background: in rounds, each of a new size, at most one a second. A
 * witness that is slow or fails misses rounds.
 */
export class Cosigning {
  readonly #deps: Dependencies;
  readonly #clients: readonly WitnessClient[];
  readonly #busy = new Set<WitnessClient>();
  /** Of witnesses that fail: how often in a row, and when they are asked again, by `performance.now`. */
  readonly #failing = new Map<WitnessClient, { failures: number; retryAt: number }>();
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #asked: { size: number; at: number } | undefined;
  #saving: Promise<void> = Promise.resolve();
  /** The newest checkpoint that a quorum has signed, with all cosignatures. */
  cosigned: SignedHead | undefined;

  constructor(deps: Dependencies) {
    this.#deps = deps;
    this.#clients = deps.policy.witnesses.map((witness) => new WitnessClient(witness));
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await this.#saving;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const { intervalMs = ROUND_INTERVAL_MS } = this.#deps;
    await this.#restore();
    if (!this.cosigned) this.#deps.observer?.onQuorum?.(0, 0);
    while (!signal.aborted) {
      const head = this.#deps.head();
      if (head && this.#isDue(head)) await this.#round(head).catch(() => {}); // the signer reports what it refuses
      await setTimeout(intervalMs, undefined, { signal }).catch(() => {});
    }
  }

  /** What was cosigned before the start, if it satisfies the policy. */
  async #restore(): Promise<void> {
    const { signer, policy, logger } = this.#deps;
    try {
      const restored = await signer.cosigned();
      if (!restored) return;
      const cosignatures = cosignaturesOf(
        restored.note,
        policy.witnesses.map(({ key }) => key),
      );
      if (quorumTime(cosignatures, policy) !== undefined) this.#serve(restored, cosignatures);
    } catch (error) {
      logger.warn(
        { reason: (error as Error).message },
        'the cosigned checkpoint cannot be read; waiting for another one',
      );
    }
  }

  #isDue({ size }: TreeHead): boolean {
    const { size: asked, at } = this.#asked ?? { size: -1, at: 0 };
    const isCosigned = this.cosigned?.size === size;
    return size !== asked || !isCosigned || performance.now() - at >= REFRESH_INTERVAL_MS;
  }

  /** Ends once a quorum has signed, or all that were asked have responded. */
  async #round(head: TreeHead): Promise<void> {
    const idle = this.#clients.filter((client) => this.#isReady(client));
    if (idle.length === 0) return;
    const { size, root } = head;
    const note = await this.#deps.sign(head);
    this.#asked = { size, at: performance.now() };
    const candidate = { size, root, note, cosignatures: new Map() };
    await new Promise<void>((resolve) => {
      const asking = idle.map(async (client) => {
        if (await this.#ask(client, candidate)) resolve();
      });
      Promise.all(asking).then(() => resolve());
    });
  }

  #isReady(client: WitnessClient): boolean {
    return !this.#busy.has(client) && (this.#failing.get(client)?.retryAt ?? 0) <= performance.now();
  }

  /** Asks a witness, and returns whether the checkpoint has a quorum now. */
  async #ask(client: WitnessClient, candidate: Candidate): Promise<boolean> {
    const { prove, observer } = this.#deps;
    const { name } = client.witness.key;
    this.#busy.add(client);
    try {
      const cosignature = await client.cosign(candidate, prove, this.#closing.signal);
      observer?.onCosignature?.(name, candidate.size, cosignature.time);
      this.#handleSuccess(client);
      candidate.cosignatures.set(client, cosignature);
      return await this.#add(candidate);
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#handleFailure(client, error as Error);
      return false;
    } finally {
      this.#busy.delete(client);
    }
  }

  #handleSuccess(client: WitnessClient): void {
    const failures = this.#failing.get(client)?.failures ?? 0;
    this.#failing.delete(client);
    if (failures >= LOGGED_FAILURES)
      this.#deps.logger.info({ witness: client.witness.key.name }, 'witness available again');
  }

  #handleFailure(client: WitnessClient, error: Error): void {
    const { logger, observer } = this.#deps;
    const { name } = client.witness.key;
    const failures = (this.#failing.get(client)?.failures ?? 0) + 1;
    this.#failing.set(client, {
      failures,
      retryAt: performance.now() + backOff(failures, MAX_RETRY_DELAY_MS),
    });
    observer?.onWitnessFailure?.(name);
    if (failures === LOGGED_FAILURES)
      logger.warn({ witness: name, reason: printable(error.message) }, 'witness does not cosign; retrying');
  }

  /** Saves and serves a checkpoint that has a quorum, unless a larger one has it. Returns whether it has one. */
  async #add(candidate: Candidate): Promise<boolean> {
    const cosignatures = [...candidate.cosignatures.values()];
    if (quorumTime(cosignatures, this.#deps.policy) === undefined) return false;
    this.#saving = this.#saving.then(() => this.#save(candidate, cosignatures));
    await this.#saving;
    return true;
  }

  async #save({ size, root, note }: Candidate, cosignatures: readonly Cosignature[]): Promise<void> {
    if (this.cosigned && this.cosigned.size > size) return;
    const cosigned = { size, root, note: note + cosignatures.map(({ line }) => line).join('') };
    try {
      await this.#deps.signer.saveCosigned(cosigned.note); // first, so that a restart does not show an older one
      this.#serve(cosigned, cosignatures);
    } catch (error) {
      this.#deps.logger.warn({ reason: (error as Error).message }, 'the cosigned checkpoint cannot be saved');
    }
  }

  #serve(cosigned: SignedHead, cosignatures: readonly Cosignature[]): void {
    const { policy, observer } = this.#deps;
    this.cosigned = cosigned;
    observer?.onQuorum?.(cosigned.size, quorumTime(cosignatures, policy) as number);
  }
}
