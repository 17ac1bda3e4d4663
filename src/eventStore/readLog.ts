import { sleep } from '../sleep.ts';
import { type Batch, type EventLog, type Position, StoreUnavailable } from './eventStore.ts';

type Options = {
  after: Position;
  signal: AbortSignal;
  /** Whether to go on at the end of the log, with each event as it is appended. */
  live?: boolean;
};

/** After so long without a batch, in milliseconds, the log is asked for its end: a subscription would wait for ever. */
export const SILENCE_TIMEOUT_MS = 20_000;
/** A reader who does not come back for so long, in milliseconds, keeps no subscription open. */
const IDLE = 2_000;

/**
 * The log after a position, batch by batch: to its end, or live.
 * @throws StoreUnavailable where the log does not answer, or is closed
 */
export async function* readLog(
  log: EventLog,
  { after, signal, live = false }: Options,
): AsyncGenerator<Batch> {
  let position = after;
  while (!signal.aborted) {
    const leaving = new AbortController();
    const subscription = log.subscribe({
      after: position,
      signal: AbortSignal.any([signal, leaving.signal]),
    });
    const batches = subscription[Symbol.asyncIterator]();
    const leave = (): void => {
      leaving.abort();
      void batches.return?.();
    };
    try {
      while (!leaving.signal.aborted) {
        const next = batches.next();
        const { value: batch, done } = await (live ? next : orAway(next, log));
        if (signal.aborted) return;
        if (done) throw new StoreUnavailable('the log has been closed');
        position = batch.events.at(-1)?.position ?? position;
        const idle = setTimeout(leave, IDLE);
        try {
          yield batch;
        } finally {
          clearTimeout(idle);
        }
        if (batch.caughtUp && !live) return;
      }
    } finally {
      leave();
    }
  }
}

async function orAway<T>(next: Promise<T>, log: EventLog): Promise<T> {
  const over = new AbortController();
  const away = async (): Promise<never> => {
    for (;;) {
      await sleep(SILENCE_TIMEOUT_MS, over.signal);
      over.signal.throwIfAborted();
      await log.end();
    }
  };
  try {
    return await Promise.race([next, away()]);
  } finally {
    over.abort();
  }
}
