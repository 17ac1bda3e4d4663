import { isStub, parseRecord } from '../erasure/erasure.ts';
import { type EventLog, hasIndices, type Position, type RecordedEvent } from '../eventStore.ts';

const BATCH_SIZE = 250;

/**
 * Yields the positions of the stubs before a record that the record names, in batches. Other events that it names do not
 * count: another program may have written it. None if the store would have to count events.
 */
export async function* stubsNamedBy(
  { data, position }: RecordedEvent,
  log: EventLog,
): AsyncGenerator<Position[]> {
  if (!hasIndices(log)) return;
  const named = parseRecord(data) ?? [];
  for (let i = 0; i < named.length; i += BATCH_SIZE) {
    const positions = named.slice(i, i + BATCH_SIZE).map(log.positionOf);
    const found = await Promise.all(positions.map((at) => log.readEvent(at)));
    yield positions.filter((at, j) => at < position && found[j] && isStub(found[j]));
  }
}
