import {
  type Appended,
  type EventStore,
  NO_STREAM,
  type Position,
  type RecordedEvent,
  WrongExpectedRevision,
} from '@event-sourced/event-log';
import { type CommandContext, EVENTS, newPlantEvent } from './events.ts';
import { plantStream } from './stream.ts';

type CreatePlant = { user: string; id: bigint; name: string; tag?: string };

/** The user has another plant with this ID, created at `position`. */
export class PlantIdTaken extends Error {
  override readonly name = 'PlantIdTaken';
  readonly position: Position;
  constructor(id: bigint, position: Position) {
    super(`plant ${id} exists with other content`);
    this.position = position;
  }
}

/**
 * Creates a plant exactly once, and returns its position in the log, the log's ID, and whether this command has created it. The
 * expected revision NO_STREAM is the whole uniqueness rule: no look-up precedes the append, and the same command can be repeated.
 * @throws PlantIdTaken, StreamDeleted, StoreUnavailable
 */
export async function createPlant(
  store: EventStore,
  command: CreatePlant,
  context: CommandContext,
): Promise<Omit<Appended, 'revision'> & { created: boolean }> {
  const { user, id, name, tag } = command;
  const stream = plantStream(user, id);
  const data = { id: String(id), user, name, ...(tag === undefined ? {} : { tag }) };
  const event = newPlantEvent({ type: 'PlantCreated', data }, context);
  try {
    return { ...(await store.append(stream, event, NO_STREAM)), created: true };
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision && error.existing)) throw error;
    const { first, logId } = error.existing;
    if (!isSamePlant(command, first)) throw new PlantIdTaken(id, first.position);
    return { position: first.position, logId, created: first.id === event.id };
  }
}

function isSamePlant({ name, tag }: CreatePlant, { type, data }: RecordedEvent): boolean {
  const { isData } = EVENTS.PlantCreated;
  return type === 'PlantCreated' && isData.Check(data) && data.name === name && data.tag === tag;
}
