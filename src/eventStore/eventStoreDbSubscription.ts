import { once } from 'node:events';
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  type EventStoreDBClient,
  START as START_IN_CLIENT,
  streamNameFilter,
} from '@eventstore/db-client';
import { type Batch, type Position, type RecordedEvent, START } from './eventStore.ts';
import { Failed, type Failure, failureOf } from './eventStoreDbFailures.ts';
import { readAll, recorded } from './eventStoreDbReading.ts';

/** Events that the client holds ready at most, and the most in a batch. */
const READY = 512;
/** A batch of a subscription that is catching up gathers for so long, since each costs waking a thread; in milliseconds. */
const GATHER = 5;
/** Considered events, in units of 32, after which a server tells that it is alive though nothing matches. */
const CHECKPOINT_INTERVAL = 32;
/** A subscription that has been silent for so long is looked after, in milliseconds. */
const SILENCE = 2_000;
/** Events looked through at a time for one that a silent subscription should have brought. */
const LOOK = 128;

const SILENT: Failure = { kind: 'passing', message: 'silent, though there is more in the log' };
const SILENT_AT_FIRST: Failure = {
  kind: 'passing',
  message: 'silent before it has caught up; servers before 23.10 never say that they have',
};
const ENDED: Failure = { kind: 'passing', message: 'the server ended it' };

/** A filtered subscription to $all whose events are fetched in batches of what has arrived. */
export class Subscription {
  readonly confirmed: Promise<unknown>;
  readonly #client: EventStoreDBClient;
  readonly #prefix: string;
  #stream: AllStreamSubscription;
  #position: Position;
  /** Up to here nothing is missing. */
  #lookedTo: Position = START;
  #caughtUp = false;
  /** The caller has been told that it has caught up. */
  #told = false;
  #failure: Failure | undefined;
  #waiting: { resolve: (batch: Batch) => void; reject: (failure: Failed) => void } | undefined;
  #heardAt = performance.now();
  #missing = false;
  #giving: NodeJS.Immediate | NodeJS.Timeout | undefined;
  #watch = setInterval(() => void this.#lookAfter(), SILENCE);

  constructor(client: EventStoreDBClient, prefix: string, after: Position) {
    this.#client = client;
    this.#prefix = prefix;
    this.#position = after;
    this.#stream = client.subscribeToAll(
      {
        fromPosition: after === START ? START_IN_CLIENT : { commit: after, prepare: after },
        filter: streamNameFilter({
          prefixes: [prefix],
          checkpointInterval: CHECKPOINT_INTERVAL,
          checkpointReached: async () => this.#heard(),
        }),
      },
      { highWaterMark: READY },
    );
    this.confirmed = Promise.race([
      once(this.#stream, 'confirmation'),
      once(this.#stream, 'end').then(() => Promise.reject(new Failed(ENDED))),
    ]);
    this.confirmed.catch(() => {});
    this.#stream
      .on('readable', () => this.#heard())
      .on('caughtUp', () => {
        this.#caughtUp = true;
        this.#heard();
      })
      .on('end', () => this.end(ENDED))
      .on('error', (error: Error) => this.end(failureOf(error)));
  }

  next(): Promise<Batch> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#heardAt = performance.now();
      this.#giveSoon();
    });
  }

  end(failure: Failure): void {
    if (this.#failure) return;
    this.#failure = failure;
    clearInterval(this.#watch);
    this.#giveSoon();
    void this.#stream.unsubscribe().catch(() => {});
  }

  #heard(): void {
    this.#heardAt = performance.now();
    this.#missing = false;
    this.#giveSoon();
  }

  /** Not at once: more may have arrived by then, and reading, which lets in more, is not interrupted by itself. */
  #giveSoon(): void {
    const give = () => {
      this.#giving = undefined;
      this.#give();
    };
    this.#giving ??= this.#caughtUp ? setImmediate(give) : setTimeout(give, GATHER);
  }

  /** Answers whoever waits, once there is something to say. */
  #give(): void {
    if (!this.#waiting) return;
    const events = this.#read();
    const caughtUp = this.#caughtUp && this.#stream.readableLength === 0;
    if (events.length > 0 || (caughtUp && !this.#told)) {
      this.#told = caughtUp;
      this.#waiting.resolve({ events, caughtUp });
    } else if (this.#failure) {
      this.#waiting.reject(new Failed(this.#failure));
    } else {
      return;
    }
    this.#waiting = undefined;
  }

  /** What has arrived. */
  #read(): RecordedEvent[] {
    const events: RecordedEvent[] = [];
    while (events.length < READY) {
      const next = this.#stream.read() as AllStreamResolvedEvent | null;
      if (!next) break;
      if (next.event) events.push(recorded(next.event));
    }
    this.#position = events.at(-1)?.position ?? this.#position;
    return events;
  }

  /** Servers send no heartbeat on a subscription: one that is silent is compared with the log, and ended when it lags twice. */
  async #lookAfter(): Promise<void> {
    if (!this.#waiting || performance.now() - this.#heardAt < SILENCE) return;
    try {
      const isMissing = !this.#caughtUp || (await this.#isBehind());
      if (isMissing && this.#missing) this.end(this.#caughtUp ? SILENT : SILENT_AT_FIRST);
      this.#missing = isMissing;
    } catch (error) {
      this.end(failureOf(error as Error));
    }
  }

  /** Looks on where the last look has ended. */
  async #isBehind(): Promise<boolean> {
    const from = this.#lookedTo > this.#position ? this.#lookedTo : this.#position;
    const next = await readAll(this.#client, from === START ? 'start' : from, false, LOOK);
    const missing = next.find(
      ({ stream, position }) => stream.startsWith(this.#prefix) && position > this.#position,
    );
    this.#lookedTo = missing ? from : (next.at(-1)?.position ?? from); // where one is missing, the next look finds it again
    return missing !== undefined;
  }
}
