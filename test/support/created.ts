import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';

/** The event of a plant, by default with its position as ID. */
export function created(
  position: number,
  user: string,
  name: string,
  tag?: string,
  plantId: number | bigint = position,
): RecordedEvent {
  const id = String(plantId);
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
