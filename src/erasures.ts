import { canErase, type EventStore } from '@event-sourced/event-log';
import { removeDrafts } from '@event-sourced/event-log/disk';
import { backOff, type NextTurn, sleep, unlessAborted } from '@event-sourced/event-log/time';
import { type Follower, removeViewDraft } from '@event-sourced/event-log/views';
import { type Erased, ErasureRefused, eraseStreams } from '@event-sourced/transparency-log/erasure';
import { type MerkleTreeView, merkleTreeFile } from '@event-sourced/transparency-log/view';
import { VIEWS } from '../projections/views.ts';
import { PLANT_STREAM_PREFIX, plantStreamsOf } from './plants/stream.ts';

/** The event store cannot overwrite events. */
export class CannotErase extends Error {
  override readonly name = 'CannotErase';
}

/** Erasing requires the Merkle tree, which is switched off. */
export class ErasureNeedsTree extends Error {
  override readonly name = 'ErasureNeedsTree';
}

type Dependencies = {
  store: EventStore;
  followers: readonly Follower[];
  /** The Merkle tree, which is one of the followers; `assertTreeExtends` resolves if it extends the last signed checkpoint. */
  tree?: { tree: Follower<MerkleTreeView>; assertTreeExtends: () => Promise<void> } | undefined;
  onRefused?: (() => void) | undefined;
  dataDir: string;
  now: () => Date;
  /** Ends the waiting for readers. */
  signal: AbortSignal;
};

const MAX_DELAY_MS = 2_000;

/** Removes what killed commands have left in a data directory; false if others are running. @throws Error */
export function removeAllDrafts(dataDir: string): boolean {
  const files = Object.values(VIEWS).map(({ file }) => file(dataDir));
  for (const file of [...files, merkleTreeFile(dataDir)]) removeViewDraft(file);
  return removeDrafts(dataDir);
}

/** Erases users, one after the other. */
export class Erasures {
  readonly #deps: Dependencies;
  #last: Promise<unknown> = Promise.resolve();
  /** The scrubs that have not ended, and those that have failed. */
  #unscrubbed = 0;

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  /** Whether no file has bytes of erased events. */
  get isScrubbed(): boolean {
    return this.#unscrubbed === 0;
  }

  /** Goes on with what earlier processes have erased. Call it once, at the start. */
  resume(): void {
    if (canErase(this.#deps.store)) this.#scrub();
  }

  /**
   * Erases all events that a user has now, durably. `scrubbed` resolves when no file of the service has a byte of them:
   * long readers may delay it. If a view has halted, it rejects when the other files are scrubbed. @throws CannotErase,
   * ErasureNeedsTree, ErasureRefused, ViewBehind, StoreUnavailable; then nothing is erased
   */
  erase(user: string, nextTurn?: NextTurn): Promise<Erased & { scrubbed: Promise<void> }> {
    const erasure = this.#last.then(() => this.#erase(user, nextTurn));
    this.#last = erasure.catch(() => {});
    return erasure;
  }

  async #erase(user: string, nextTurn?: NextTurn) {
    const { store, tree, now, onRefused } = this.#deps;
    if (!canErase(store)) throw new CannotErase('the event store cannot overwrite events');
    if (!tree) throw new ErasureNeedsTree('the Merkle tree is switched off');
    const streams = { streams: plantStreamsOf(user), prefix: PLANT_STREAM_PREFIX };
    try {
      const erased = await eraseStreams(store, { ...streams, ...tree, now, nextTurn });
      return { ...erased, scrubbed: this.#scrub() };
    } catch (error) {
      if (error instanceof ErasureRefused) onRefused?.();
      throw error;
    }
  }

  #scrub(): Promise<void> {
    this.#unscrubbed++;
    const scrubbed = this.#scrubFiles();
    scrubbed.then(
      () => this.#unscrubbed--,
      () => {}, // the files are not scrubbed
    );
    return scrubbed;
  }

  async #scrubFiles(): Promise<void> {
    const { store, dataDir, signal } = this.#deps;
    const end = await store.lastPosition();
    const reaching = Promise.allSettled(this.#deps.followers.map((follower) => follower.reached(end)));
    const reached = await unlessAborted(reaching, signal);
    const followers = this.#deps.followers.filter((_, i) => reached?.[i]?.status === 'fulfilled');
    for (let attempts = 1; ; attempts++) {
      signal.throwIfAborted();
      const scrubbing = [store.scrubbing, ...followers.map((follower) => follower.scrubbing)];
      await unlessAborted(Promise.all(scrubbing), signal);
      // Drafts that are still in use may be of processes that began before the erasure.
      const isScrubbed = store.scrubbing === undefined && followers.every(({ view }) => !view.isUnscrubbed);
      if (isScrubbed && removeAllDrafts(dataDir)) break;
      await sleep(backOff(attempts, MAX_DELAY_MS), signal);
    }
    const halted = this.#deps.followers.find((follower) => !followers.includes(follower));
    if (halted) throw new Error(`${halted.notReady}; SKIP_EVENTS skips the event`);
  }
}
