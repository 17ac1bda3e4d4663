import { type Api, ApiError, errorMessage, pause } from './api.ts';
import { parseEvent, readLines, type ShownEvent } from './events.ts';
import { Silence } from './silence.ts';

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;

export type LiveState = 'Live' | 'Reconnecting';

type Options = {
  query: URLSearchParams;
  /** The position of an event, after which to start; undefined if the log is empty. */
  after: string | undefined;
  signal: AbortSignal;
  onEvent: (event: ShownEvent) => void;
  /** `problem` is why it is not connected. */
  onState: (state: LiveState, problem?: string) => void;
};

/** Follows the log by server-sent events, and resumes them. EventSource cannot send a token. @throws ApiError */
export async function followEvents(
  api: Api,
  { query, after, signal, onEvent, onState }: Options,
): Promise<void> {
  const headers: Record<string, string> = { accept: 'text/event-stream' };
  if (after !== undefined) headers['last-event-id'] = after;
  for (let retryMs = FIRST_RETRY_MS; !signal.aborted; retryMs = Math.min(2 * retryMs, MAX_RETRY_MS)) {
    const silence = new Silence();
    try {
      const response = await api.get(`events?${query}`, {
        headers,
        signal: AbortSignal.any([signal, silence.signal]),
      });
      onState('Live');
      retryMs = FIRST_RETRY_MS;
      for await (const line of readLines(response, () => silence.restart())) {
        if (line.startsWith('id: ')) headers['last-event-id'] = line.slice('id: '.length);
        else if (line.startsWith('data: ')) onEvent(parseEvent(line.slice('data: '.length)));
      }
      onState('Reconnecting', 'The connection ended.');
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status < 500) throw error;
      onState('Reconnecting', errorMessage(silence.signal.reason ?? error)); // browsers may drop the reason
    } finally {
      silence.end();
    }
    await pause(retryMs, signal);
  }
}
