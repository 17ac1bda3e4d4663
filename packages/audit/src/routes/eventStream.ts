import type { RecordedEvent } from '@event-sourced/event-log';
import type { replay } from '@event-sourced/event-log/replay';

/** An idle event stream gets a comment, so that no proxy closes it. */
const HEARTBEAT_INTERVAL_MS = 15_000;

export type Batches = ReturnType<typeof replay>;
export type FirstBatch = Awaited<ReturnType<Batches['next']>>;

/** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
export async function* messages(
  first: FirstBatch,
  batches: Batches,
  toJson: (event: RecordedEvent) => string,
): AsyncGenerator<string> {
  const toMessage = (event: RecordedEvent): string => `id: ${event.position}\ndata: ${toJson(event)}\n\n`;
  yield ': connected\n\n';
  let next = Promise.resolve(first);
  let idle = timeout(HEARTBEAT_INTERVAL_MS);
  try {
    for (;;) {
      const result = await Promise.race([idle.elapsed, next]);
      if (result?.done) return;
      const text = result ? result.value.events.map(toMessage).join('') : ': heartbeat\n\n';
      if (text !== '') {
        yield text;
        idle.clear();
        idle = timeout(HEARTBEAT_INTERVAL_MS);
      }
      if (!result) continue;
      next = batches.next();
      next.catch(() => {}); // it may fail while a heartbeat is sent; then the loop throws it
    }
  } finally {
    idle.clear();
  }
}

function timeout(ms: number): { elapsed: Promise<undefined>; clear(): void } {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  return { elapsed: promise, clear: () => clearTimeout(timer) };
}
