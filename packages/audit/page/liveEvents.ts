import { type Api, ApiError, errorMessage, pause } from './api.ts';
import { parseEvent, readLines, type ShownEvent } from './events.ts';
import { Silence } from './silence.ts';
import type { Connection } from './state.ts';

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
const UNREACHABLE = 'the service cannot be reached';

type Options = {
  query: URLSearchParams;
  /** The position after which to start; undefined if the log is empty. */
  after: string | undefined;
  signal: AbortSignal;
  onEvent: (event: ShownEvent) => void;
  onState: (connection: Connection) => void;
};

/** Follows the log by server-sent events, and resumes them. EventSource cannot send a token. */
export class LiveEvents {
  readonly #api: Api;
  #silence: Silence | undefined;

  constructor(api: Api) {
    this.#api = api;
  }

  /** Another request did not reach the service: the open connection may be broken, too, so it is replaced. */
  interrupt(): void {
    this.#silence?.abort(UNREACHABLE);
  }

  /** Calls `onEvent` until the signal aborts. @throws ApiError */
  async follow({ query, after, signal, onEvent, onState }: Options): Promise<void> {
    const headers: Record<string, string> = {};
    if (after !== undefined) headers['last-event-id'] = after;
    const lose = (error: unknown): void => onState({ state: 'lost', problem: errorMessage(error) });
    for (let retryMs = FIRST_RETRY_MS; !signal.aborted; retryMs = Math.min(2 * retryMs, MAX_RETRY_MS)) {
      const silence = new Silence();
      this.#silence = silence;
      try {
        const response = await this.#api.get(`events?${query}`, 'text/event-stream', {
          headers,
          signal: AbortSignal.any([signal, silence.signal]),
        });
        onState({ state: 'live' });
        retryMs = FIRST_RETRY_MS;
        for await (const line of readLines(response, () => silence.restart())) {
          if (line.startsWith('id: ')) headers['last-event-id'] = line.slice('id: '.length);
          else if (line.startsWith('data: ')) onEvent(parseEvent(line.slice('data: '.length)));
        }
        lose('the connection ended');
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.status < 500) throw error;
        lose(silence.signal.reason ?? error); // browsers may drop the reason
      } finally {
        silence.end();
      }
      await pause(retryMs, signal);
    }
  }
}
