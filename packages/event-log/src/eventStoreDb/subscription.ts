import { convertToCommandError, type EventStoreDBClient } from '@eventstore/db-client';
import type { ReadResp } from '@eventstore/db-client/generated/streams_pb.js';
import type { Batch, Position, RecordedEvent } from '../eventStore.ts';
import { toFailure } from './failures.ts';
import { CallFailed } from './protocol.ts';
import { eventIn, openSubscription, type ReadCall } from './readCall.ts';

/** `checkpoint`: the server has searched up to this position, and earlier batches had every match. */
export type SubscriptionBatch = Batch & { checkpoint?: Position | undefined };

/** The maximum number of buffered events, and of events in a batch. Servers before 24.2 drop slow subscribers. */
const BUFFER_SIZE = 512;
/** While catching up, a batch collects events for this time or until the buffer is full: it wakes the other thread. */
const BATCH_INTERVAL_MS = 5;

/** A subscription to $all, filtered by stream prefix. It delivers the events that have arrived in batches. */
export class Subscription {
  readonly #confirmed = Promise.withResolvers<void>();
  #call: ReadCall | undefined;
  #events: RecordedEvent[] = [];
  #checkpoint: Position | undefined;
  #caughtUp = false;
  /** Something has arrived after the last batch. */
  #hasNews = false;
  #failure: CallFailed | undefined;
  #waiting: { resolve: (batch: SubscriptionBatch) => void; reject: (error: CallFailed) => void } | undefined;
  #delivery: NodeJS.Immediate | NodeJS.Timeout | undefined;

  constructor(client: EventStoreDBClient, prefix: string, after: Position) {
    this.#confirmed.promise.catch(() => {});
    openSubscription(client, { from: after, prefix }).then(
      (call) => this.#receive(call),
      (error: Error) => this.end(toFailure(error, 'subscribe')),
    );
  }

  /** Resolves when the server has accepted the subscription; rejects if it ends first. */
  get confirmed(): Promise<void> {
    return this.#confirmed.promise;
  }

  /** The next batch. Rejects when the subscription has ended and all its events were delivered. */
  next(): Promise<SubscriptionBatch> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#scheduleDelivery();
    });
  }

  end(failure: CallFailed): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#confirmed.reject(failure);
    this.#call?.cancel();
    this.#scheduleDelivery();
  }

  #receive(call: ReadCall): void {
    this.#call = call;
    call
      .on('data', (response: ReadResp) => this.#handle(response))
      .on('end', () => this.end(new CallFailed('transient', 'the server ended the subscription')))
      .on('error', (error: Error) => this.end(toFailure(convertToCommandError(error), 'subscribe')));
    if (this.#failure) call.cancel();
  }

  #handle(response: ReadResp): void {
    if (response.hasConfirmation()) this.#confirmed.resolve();
    const found = eventIn(response);
    if (found) this.#events.push(found.event);
    const position = response.getCheckpoint()?.getCommitPosition();
    if (position !== undefined) this.#checkpoint = BigInt(position);
    this.#caughtUp ||= response.hasCaughtUp();
    this.#hasNews ||= !response.hasConfirmation();
    if (this.#isFull) this.#call?.pause();
    this.#scheduleDelivery();
  }

  get #isFull(): boolean {
    return this.#events.length >= BUFFER_SIZE;
  }

  /** Delayed, since more events may arrive in the same turn of the event loop. */
  #scheduleDelivery(): void {
    const deliver = () => {
      this.#delivery = undefined;
      this.#deliver();
    };
    if (this.#isFull) this.#deliver();
    this.#delivery ??= this.#caughtUp ? setImmediate(deliver) : setTimeout(deliver, BATCH_INTERVAL_MS);
  }

  #deliver(): void {
    if (!this.#waiting) return;
    if (this.#hasNews) {
      const [events, checkpoint] = [this.#events, this.#checkpoint];
      const caughtUp = this.#caughtUp && !this.#isFull;
      this.#events = [];
      this.#checkpoint = undefined;
      this.#hasNews = false;
      this.#call?.resume();
      this.#waiting.resolve({ events, caughtUp, checkpoint });
    } else if (this.#failure) {
      this.#waiting.reject(this.#failure);
    } else {
      return;
    }
    this.#waiting = undefined;
  }
}
