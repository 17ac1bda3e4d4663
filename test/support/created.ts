import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';

/** The event of a plant whose ID is its position. */
export function created(position: number, user: string, name: string, tag?: string): RecordedEvent {
  const id = String(position);
  return {
    position: BigInt(position),
    stream: `plant-${user}/${id}`,
    revision: 0n,
    id: `event-${position}`,
    type: 'PlantCreated',
    data: { id, user, name, ...(tag === undefined ? {} : { tag }) },
    metadata: {},
  };
}
