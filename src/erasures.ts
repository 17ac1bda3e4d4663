import { statfs } from 'node:fs/promises';
import {
  canErase,
  type ErasableStore,
  type EventStore,
  type Logger,
  type Position,
} from '@event-sourced/event-log';
import { removeDrafts } from '@event-sourced/event-log/disk';
import type { Follower } from '@event-sourced/event-log/views';
import { fileSize } from '@event-sourced/node/files';
import { backOff, type NextTurn, sleep, unlessAborted } from '@event-sourced/node/time';
import { type Erased, ErasureRefused, eraseStreams } from '@event-sourced/transparency-log/erasure';
import type { MerkleTreeView } from '@event-sourced/transparency-log/view';
import { PLANT_STREAM_PREFIX, plantStreamsOf } from './plants/stream.ts';
import { erasedFile } from './stores.ts';
import { viewFiles } from './views.ts';

/** The event store cannot overwrite events. */
export class CannotErase extends Error {
  override readonly name = 'CannotErase';
}

/** Erasing requires the Merkle tree, which is switched off. */
export class ErasureNeedsTree extends Error {
  override readonly name = 'ErasureNeedsTree';
}

/** There is too little free space to erase. Nothing was erased. */
export class NoSpaceToErase extends Error {
  override readonly name = 'NoSpaceToErase';
}

type Dependencies = {
  store: EventStore;
  followers: readonly Follower[];
  /** The Merkle tree, which is one of the followers; `assertTreeExtends` resolves if it extends the last signed checkpoint. */
  tree?: { tree: Follower<MerkleTreeView>; assertTreeExtends: () => Promise<void> } | undefined;
  onRefused?: (() => void) | undefined;
  dataDir: string;
  now: () => Date;
  logger: Pick<Logger, 'warn'>;
};

/** Erasures in this time share a scrub, which rewrites indexes. */
const SCRUB_DELAY_MS = 100;
const MAX_RETRY_DELAY_MS = 2_000;

/** Erases users, one after the other, and removes the bytes of erased events from the log and all views. */
export class Erasures {
  readonly #deps: Dependencies;
  readonly #erased: ReturnType<typeof erasedFile>;
  readonly #closing = new AbortController();
  #erasing: Promise<unknown> = Promise.resolve();
  #scrubbing: Promise<unknown> = Promise.resolve();
  /** The next scrub, which has not begun. */
  #nextScrub: Promise<void> | undefined;
  /** Whether neither the log nor a view has bytes of erased events, and a restore would not bring them back. */
  isScrubbed = false;

  constructor(deps: Dependencies) {
    this.#deps = deps;
    this.#erased = erasedFile(deps.dataDir);
    for (const follower of deps.followers) follower.onErasure = () => void this.#scrub();
  }

  /** Goes on with what earlier processes have erased. Call it once, at the start. */
  resume(): void {
    this.#scrub();
  }

  /** Ends after the step of a scrub; the next start goes on with it. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#erasing;
    await this.#scrubbing;
  }

  /**
   * Erases all events that a user has now, durably. `scrubbed` resolves when neither the log nor a view has a byte of
   * them, and the file of erased events names them: long readers may delay it. It rejects if the log turns out to be
   * damaged, and, when the other files are scrubbed, if a view has halted. @throws CannotErase, ErasureNeedsTree,
   * NoSpaceToErase, ErasureRefused, ViewBehind; then nothing is erased. StoreUnavailable; then a part may be erased and
   * recorded
   */
  erase(user: string, nextTurn?: NextTurn): Promise<Erased & { scrubbed: Promise<void> }> {
    const erasure = this.#erasing.then(() => this.#erase(user, nextTurn));
    this.#erasing = erasure.catch(() => {});
    return erasure;
  }

  async #erase(user: string, nextTurn?: NextTurn) {
    const { store, tree, now, onRefused } = this.#deps;
    if (!canErase(store)) throw new CannotErase('the event store cannot overwrite events');
    if (!tree) throw new ErasureNeedsTree('the Merkle tree is switched off');
    await this.#assertSpace(store);
    const streams = { streams: plantStreamsOf(user), prefix: PLANT_STREAM_PREFIX };
    try {
      const erased = await eraseStreams(store, { ...streams, ...tree, now, nextTurn });
      return { ...erased, scrubbed: this.#scrub() };
    } catch (error) {
      if (error instanceof ErasureRefused) onRefused?.();
      throw error;
    }
  }

  /** Views are rewritten, too: once to a temporary file, and once to their write-ahead logs. @throws NoSpaceToErase */
  async #assertSpace(store: ErasableStore): Promise<void> {
    const { dataDir } = this.#deps;
    const { bavail, bsize } = await statfs(dataDir);
    const viewBytes = viewFiles(dataDir).map(fileSize);
    const needed = viewBytes.reduce((sum, bytes) => sum + 2 * bytes, await store.spaceToErase());
    if (bavail * bsize >= needed) return;
    const mebibytes = Math.ceil(needed / 2 ** 20);
    throw new NoSpaceToErase(`erasing needs up to ${mebibytes} MiB of free space; nothing was erased`);
  }

  /** Scrubs all files, after a scrub that has begun, and after erasures: each of them would rewrite the files again. */
  #scrub(): Promise<void> {
    this.isScrubbed = false;
    this.#nextScrub ??= Promise.all([this.#scrubbing, this.#erasing])
      .then(() => sleep(SCRUB_DELAY_MS, this.#closing.signal))
      .then(() => {
        this.#nextScrub = undefined;
        return this.#scrubFiles();
      });
    this.#scrubbing = this.#nextScrub.catch(() => {});
    return this.#nextScrub;
  }

  /** Repeats steps until all files but those of halted views are scrubbed. @throws Error if one has halted, or the log is damaged */
  async #scrubFiles(): Promise<void> {
    const { store, followers, logger } = this.#deps;
    const { signal } = this.#closing;
    for (let attempts = 1; ; attempts++) {
      signal.throwIfAborted();
      const isDone = await this.#step().catch((error: Error) => {
        logger.warn({ reason: error.message }, 'scrubbing failed; retrying');
        return false;
      });
      if (isDone) break;
      // For good, until the next start.
      if (canErase(store) && store.appendsRefused) throw new Error(store.appendsRefused);
      await sleep(backOff(attempts, MAX_RETRY_DELAY_MS), signal);
    }
    const halted = followers.find((follower) => follower.isHalted);
    if (halted) throw new Error(`${halted.notReady}; SKIP_EVENTS skips the event`);
    this.isScrubbed = this.#nextScrub === undefined;
  }

  /** A draft that is still in use may be of a process that began before an erasure. */
  async #step(): Promise<boolean> {
    const { store, followers, dataDir } = this.#deps;
    const end = store.lastPosition();
    const views = followers.map((follower) => this.#scrubView(follower, end));
    const log = canErase(store) ? [store.scrub(), this.#erased.update(store).then(() => true)] : [];
    const steps = [...log, ...views];
    await Promise.allSettled(steps); // only one step of a file runs at a time
    const isDone = (await Promise.all(steps)).every((it) => it);
    return isDone && removeDrafts(dataDir);
  }

  /** Waits until the view has applied every erasure. */
  async #scrubView(follower: Follower, end: Promise<Position>): Promise<boolean> {
    const reaching = end.then((position) => follower.reached(position)).then(() => true);
    const isReached = await unlessAborted(reaching, this.#closing.signal).catch(() => false);
    return isReached ? follower.scrub() : follower.isHalted;
  }
}
