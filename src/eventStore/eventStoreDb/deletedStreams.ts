import { type EventLog, LogReplaced, NO_LOG_ID, type RecordedEvent, START } from '../eventStore.ts';
import { CatchUpSubscription } from './catchUpSubscription.ts';
import type { RetryingClient } from './retryingClient.ts';

/** The stream of a stream's metadata. */
const METADATA_PREFIX = '$$';
/** A stream is deleted if its metadata truncates it before this revision, or a later one. */
const DELETED_BEFORE = Number.MAX_SAFE_INTEGER;

const SILENT = { info() {}, warn() {}, error() {} };

/**
 * The streams that were deleted and not tombstoned ("soft delete"). The server takes such a stream for one that does
 * not exist, and continues it at its next revision, so their metadata is followed, from the start of the log.
 */
export class DeletedStreams {
  readonly #client: RetryingClient;
  readonly #log: Pick<EventLog, 'logId' | 'readEvent'>;
  readonly #prefix: string;
  readonly #deleted = new Set<string>();
  /** Whether the metadata was read to its end, and is followed. */
  #isComplete = false;

  /** Follows the streams with this prefix until the client is closed. */
  constructor(client: RetryingClient, log: Pick<EventLog, 'logId' | 'readEvent'>, prefix: string) {
    this.#client = client;
    this.#log = log;
    this.#prefix = METADATA_PREFIX + prefix;
    void this.#run();
  }

  /** Whether a stream is deleted; undefined while that is not known. */
  has(stream: string): boolean | undefined {
    return this.#isComplete ? this.#deleted.has(stream) : undefined;
  }

  async #run(): Promise<void> {
    while (!this.#client.closed.aborted) {
      try {
        await this.#follow();
      } catch (error) {
        if (!(error instanceof LogReplaced)) throw error;
      }
    }
  }

  async #follow(): Promise<void> {
    this.#deleted.clear();
    const onSubscriptionDropped = (): void => {
      this.#isComplete = false;
    };
    onSubscriptionDropped();
    const range = { after: START, signal: this.#client.closed, logId: NO_LOG_ID, prefix: this.#prefix };
    const subscription = new CatchUpSubscription(this.#client, this.#log, SILENT, range, {
      onSubscriptionDropped,
    });
    for await (const { events, caughtUp } of subscription.batches()) {
      for (const event of events) this.#apply(event);
      this.#isComplete ||= caughtUp;
    }
  }

  #apply({ stream, data }: RecordedEvent): void {
    const name = stream.slice(METADATA_PREFIX.length);
    if (isDeletion(data)) this.#deleted.add(name);
    else this.#deleted.delete(name);
  }
}

/** Whether a stream's metadata deletes it. */
export function isDeletion(metadata: unknown): boolean {
  const truncatedBefore = (metadata as { $tb?: unknown } | null | undefined)?.$tb;
  return typeof truncatedBefore === 'number' && truncatedBefore >= DELETED_BEFORE;
}
