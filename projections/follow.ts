import type { BaseLogger } from 'pino';
import { type EventStore, type Position, StoreUnavailable } from '../src/eventStore/eventStore.ts';
import { MalformedPlantCreated } from '../src/plants/plant.ts';
import { settledWithin, sleep } from '../src/sleep.ts';
import type { PlantsByUser } from './plantsByUser.ts';

/** The view has not reached a position in time, or has stopped; the message says which, in words for a client. */
export class ViewBehind extends Error {
  override readonly name = 'ViewBehind';
}

export type Progress = { from: Position; position: Position; end: Position };

export type Follower = {
  /** Resolves once the view, of the log with this mark, has caught up since the start and has seen `position`. @throws ViewBehind */
  reached(position: Position, mark?: string): Promise<void>;
  /** How often the view has begun anew: positions from before then may be lost. */
  readonly rebuilds: number;
  /** Why the view cannot be asked just now; undefined when it can. */
  notReady(): string | undefined;
  /** Ends following; what has been seen is in the view, but perhaps not saved yet. */
  stop(): Promise<void>;
};

type Options = {
  store: EventStore;
  view: PlantsByUser;
  /** Ids of events that an operator has decided to pass over. */
  skip: ReadonlySet<string>;
  log: Pick<BaseLogger, 'info' | 'warn' | 'error' | 'fatal'>;
  onProgress?: (progress: Progress) => void;
};

/** How long `reached` waits, in milliseconds. */
export const REACHED_TIMEOUT_MS = 5_000;

/** Rows wait for each other so that they share pages and a transaction: up to this many, or this many milliseconds. */
const SAVE_AFTER_EVENTS = 10_000;
const SAVE_AFTER = 1_000;
/** While rows cannot be saved the view goes on in memory, up to this many. */
const MOST_UNSAVED = 200_000;

const LONGEST_PAUSE = 2_000;
/** A log that is away is not waited for at the end, in milliseconds. */
const FAREWELL = 500;

const backOff = (failures: number): number => Math.min(50 * 2 ** failures, LONGEST_PAUSE);

/** Keeps the view up with the log: binds it to its log, then applies every event as it comes. */
export function follow({ store, view, skip, log, onProgress }: Options): Follower {
  const stopping = new AbortController();
  const waiting = new Set<() => void>();
  let caughtUp = false;
  let rebuilds = 0;
  let stopped: string | undefined;
  let away: string | undefined;
  let saving: NodeJS.Timeout | undefined;
  let failedSaves = 0;
  let restart = new AbortController();
  view.onDamage = () => {
    caughtUp = false;
    restart.abort();
  };

  /** A view of another log, or of a log that has lost what the view has seen, starts anew. */
  async function bind(): Promise<void> {
    const { mark, position, eventId } = view.seen;
    const current = await store.mark();
    const known = mark === current && (eventId === '' || (await store.eventAt(position))?.id === eventId);
    if (known) return;
    const reason = eventId === '' ? view.replaced : 'it is of another log';
    if (reason) log.warn({ reason }, 'the view is built anew');
    if (stopping.signal.aborted) return;
    caughtUp = false;
    rebuilds++;
    view.reset(current);
  }

  async function catchUp(): Promise<void> {
    restart = new AbortController();
    const signal = AbortSignal.any([stopping.signal, restart.signal]);
    await bind();
    const from = view.position;
    const end = await store.end();
    if (away !== undefined) log.info('the log is back');
    away = undefined;
    for await (const batch of store.subscribe({ after: from, signal })) {
      if (signal.aborted) break; // what was read belongs to a view that is gone
      view.apply(batch.events, skip);
      for (const { id, position } of skip.size > 0 ? batch.events : []) {
        if (skip.has(id))
          log.warn({ eventId: id, position: String(position) }, 'passed over an event: SKIP_EVENTS');
      }
      if (!caughtUp) {
        caughtUp = batch.caughtUp;
        onProgress?.({ from, position: view.position, end: caughtUp ? view.position : end });
        if (caughtUp && view.position > from)
          log.info({ from: String(from), to: String(view.position) }, 'the view has caught up');
      }
      for (const look of waiting) look();
      if (view.unsaved >= SAVE_AFTER_EVENTS && failedSaves === 0) save();
      else if (view.unsaved > 0) saving ??= setTimeout(save, SAVE_AFTER).unref();
      while (view.unsaved >= MOST_UNSAVED && !signal.aborted) await sleep(100, signal);
    }
  }

  /** Where it fails, as on a full disk, nothing is lost: the rows stay in memory, and are saved when they can be. */
  function save(): void {
    clearTimeout(saving);
    saving = undefined;
    try {
      view.save();
      failedSaves = 0;
    } catch (error) {
      log.error({ err: error }, 'the view cannot be saved: trying again');
      saving = setTimeout(save, backOff(++failedSaves)).unref();
    }
  }

  async function run(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; ) {
      const { position } = view;
      try {
        await catchUp();
      } catch (error) {
        if (error instanceof MalformedPlantCreated) {
          stopped = `the view has stopped: ${error.message}`;
          log.fatal({ err: error }, `${stopped}; SKIP_EVENTS=${error.eventId} passes over it`);
          return;
        }
        if (stopping.signal.aborted) return;
        failures = view.position > position ? 1 : failures + 1;
        const delay = backOff(failures);
        if (error instanceof StoreUnavailable) {
          if (away === undefined)
            log.warn({ reason: error.message }, 'the log is away: the view waits for it');
          away = error.message;
        } else {
          log.error({ err: error, delay }, 'the view cannot follow the log: trying again');
        }
        await sleep(delay, stopping.signal);
      }
    }
  }

  const running = run();

  function notReady(): string | undefined {
    if (stopped) return stopped;
    if (caughtUp) return undefined;
    return away === undefined
      ? `the view is catching up with the log, at position ${view.position}`
      : `the log is away: ${away}`;
  }

  const isReached = (position: Position, mark = view.mark): boolean =>
    caughtUp && !stopped && view.mark === mark && view.position >= position;

  return {
    notReady,
    get rebuilds() {
      return rebuilds;
    },
    async reached(position, mark) {
      if (isReached(position, mark)) return;
      if (stopped) throw new ViewBehind('The list of plants is out of order; we have been told.');
      await new Promise<void>((resolve, reject) => {
        const look = () => {
          if (!isReached(position, mark)) return;
          done();
          resolve();
        };
        const timer = setTimeout(() => {
          done();
          reject(new ViewBehind('The list of plants is not up to date yet; try again.'));
        }, REACHED_TIMEOUT_MS);
        const done = () => {
          waiting.delete(look);
          clearTimeout(timer);
        };
        waiting.add(look);
      });
    },
    async stop() {
      clearTimeout(saving);
      stopping.abort();
      await settledWithin(FAREWELL, running);
    },
  };
}
