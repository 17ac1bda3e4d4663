import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Position, RecordedEvent } from '@event-sourced/event-log';
import { convertToCommandError, type EventStoreDBClient } from '@eventstore/db-client';
import { CallFailed } from './protocol.ts';
import { openSubscription, outOfOrder, type ReadCall } from './readCall.ts';
import type { ReadResponse } from './readResponse.ts';

/** `searchedTo`: the server has searched up to this position, and sent every match. */
export type NewEvents = { events: RecordedEvent[]; searchedTo?: Position | undefined };

/** The maximum number of buffered events. Servers before 24.2 drop slow subscribers. */
const BUFFER_SIZE = 512;

/** A subscription to $all, filtered by stream prefix. It delivers together what has arrived. */
export class Subscription {
  readonly #confirmed = Promise.withResolvers<void>();
  #call: ReadCall | undefined;
  #arrived: NewEvents = { events: [] };
  #position: Position;
  #failure: Error | undefined;
  /** Resolves when something has arrived, or the subscription has ended. */
  #news = Promise.withResolvers<void>();

  constructor(client: EventStoreDBClient, prefix: string, after: Position) {
    this.#position = after;
    this.#confirmed.promise.catch(() => {});
    openSubscription(client, { from: after, prefix }).then(
      (call) => this.#receive(call),
      (error: Error) => this.end(error),
    );
  }

  /** Resolves when the server has accepted the subscription; rejects if it ends first. */
  get confirmed(): Promise<void> {
    return this.#confirmed.promise;
  }

  /** Waits for the next events. Rejects when the subscription has ended and all its events were delivered. */
  async next(): Promise<NewEvents> {
    await this.#news.promise;
    await nextTurn(); // more events may arrive in the same turn of the event loop
    const arrived = this.#arrived;
    const isEmpty = arrived.events.length === 0 && arrived.searchedTo === undefined;
    if (isEmpty && this.#failure) throw this.#failure;
    this.#arrived = { events: [] };
    if (!this.#failure) this.#news = Promise.withResolvers();
    this.#call?.resume();
    return arrived;
  }

  end(failure: Error): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#confirmed.reject(failure);
    this.#call?.cancel();
    this.#news.resolve();
  }

  #receive(call: ReadCall): void {
    this.#call = call;
    call
      .on('data', (response: ReadResponse) => this.#handle(response))
      .on('end', () => this.end(new CallFailed('transient', 'the server ended the subscription')))
      .on('error', (error: Error) => this.end(convertToCommandError(error)));
    if (this.#failure) call.cancel();
  }

  #handle({ event, isConfirmation, searchedTo }: ReadResponse): void {
    if (isConfirmation) this.#confirmed.resolve();
    const { events } = this.#arrived;
    if (event && event.position <= this.#position) {
      this.end(outOfOrder(event));
      return;
    }
    this.#position = event?.position ?? this.#position;
    if (event) events.push(event);
    if (searchedTo !== undefined) this.#arrived.searchedTo = searchedTo;
    if (event || searchedTo !== undefined) this.#news.resolve();
    if (events.length >= BUFFER_SIZE) this.#call?.pause();
  }
}
