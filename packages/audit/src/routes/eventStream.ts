import type { Batch, RecordedEvent } from '@event-sourced/event-log';
import { unlessLater } from '@event-sourced/node/time';

/** An idle event stream gets a comment at this interval, so that proxies do not close it. */
const HEARTBEAT_INTERVAL_MS = 15_000;

/** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
export async function* messages(
  batches: AsyncGenerator<Batch>,
  toJson: (event: RecordedEvent) => string,
): AsyncGenerator<string> {
  const toMessage = (event: RecordedEvent): string => `id: ${event.position}\ndata: ${toJson(event)}\n\n`;
  yield ': connected\n\n';
  let sentAt = performance.now();
  for (let next = batches.next(); ; ) {
    const batch = await unlessLater(sentAt + HEARTBEAT_INTERVAL_MS - performance.now(), next);
    if (batch?.done) return;
    const isIdle = performance.now() - sentAt >= HEARTBEAT_INTERVAL_MS;
    const text = batch?.value.events.map(toMessage).join('') || (isIdle ? ': heartbeat\n\n' : '');
    if (text !== '') {
      yield text;
      sentAt = performance.now();
    }
    if (!batch) continue;
    next = batches.next();
    next.catch(() => {}); // if it fails while a message is being sent, the loop throws the error later
  }
}
