import { parseErasure, recordStreams } from './erasure.ts';
import type { EventLog, RecordedEvent } from './eventStore.ts';
import { readToEnd } from './readEvents.ts';

/**
 * Asserts that a later record of the log names each of these stubs by its leaf hash: a stub without a record may hide
 * an altered event. `prefix` is that of the streams of records. @throws Error
 */
export async function assertRecorded(
  log: Pick<EventLog, 'lastPosition' | 'readAll'>,
  stubs: Iterable<RecordedEvent>,
  prefix: string,
): Promise<void> {
  const unnamed = new Map(Array.from(stubs, ({ erased, position }) => [erased, position]));
  if (unnamed.size === 0) return;
  for await (const { events } of readToEnd(log, { prefix: recordStreams(prefix) }))
    for (const event of events)
      for (const { leaf } of parseErasure(event)?.events ?? [])
        if (event.position > (unnamed.get(leaf) ?? event.position)) unnamed.delete(leaf);
  const [position] = unnamed.values();
  if (position !== undefined)
    throw new Error(
      `no later record names the stub at position ${position} of the log, which may hide an altered event; nothing was erased: run verify`,
    );
}
