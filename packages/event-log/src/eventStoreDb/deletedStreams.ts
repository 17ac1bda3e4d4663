import { LogReplaced, NO_LOG_ID, type RecordedEvent, START } from '../eventStore.ts';
import { catchUpSubscription, type LogIdentity } from './catchUpSubscription.ts';
import type { RetryingClient } from './retryingClient.ts';

/** The stream of a stream's metadata. */
const METADATA_PREFIX = '$$';
/** A stream is deleted if its metadata truncates it before this revision, or a later one. */
const DELETED_BEFORE = Number.MAX_SAFE_INTEGER;

/**
 * The streams that were deleted and not tombstoned ("soft delete"). The server takes such a stream for one that does
 * not exist, and continues it at its next revision, so their metadata is followed, from the start of the log.
 */
export class DeletedStreams {
  readonly #deleted = new Set<string>();
  /** Whether the metadata was read to its end, and is followed. */
  #isComplete = false;

  /** Follows the streams with this prefix until the client is closed. */
  constructor(client: RetryingClient, log: LogIdentity, prefix: string) {
    void this.#run(client, log, METADATA_PREFIX + prefix);
  }

  /** Whether a stream is deleted; undefined while that is not known. */
  has(stream: string): boolean | undefined {
    return this.#isComplete ? this.#deleted.has(stream) : undefined;
  }

  async #run(client: RetryingClient, log: LogIdentity, prefix: string): Promise<void> {
    const observer = {
      onSubscriptionDropped: () => {
        this.#isComplete = false;
      },
    };
    const range = { after: START, signal: client.closed, logId: NO_LOG_ID, prefix, observer };
    while (!client.closed.aborted) {
      this.#deleted.clear();
      this.#isComplete = false;
      try {
        for await (const { events, caughtUp } of catchUpSubscription(client, log, range)) {
          for (const event of events) this.#apply(event);
          this.#isComplete ||= caughtUp;
        }
      } catch (error) {
        if (!(error instanceof LogReplaced)) throw error;
      }
    }
  }

  #apply({ stream, data }: RecordedEvent): void {
    const name = stream.slice(METADATA_PREFIX.length);
    if (isDeletion(data)) this.#deleted.add(name);
    else this.#deleted.delete(name);
  }
}

function isDeletion(metadata: unknown): boolean {
  const truncatedBefore = (metadata as { $tb?: unknown } | null | undefined)?.$tb;
  return typeof truncatedBefore === 'number' && truncatedBefore >= DELETED_BEFORE;
}
