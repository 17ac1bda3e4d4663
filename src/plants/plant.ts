import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import {
  type EventStore,
  type NewEvent,
  NO_STREAM,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../eventStore/eventStore.ts';
import { UUID } from '../newId.ts';
import { timeOf } from '../time.ts';
import { isUser } from '../user.ts';

// The names and shapes of PlantCreated and of its stream are what the log stores, for ever: add, never change.

/** The data of the event. The id is text: int64 does not fit a JSON number in most readers. */
const PlantCreated = Type.Object({
  id: Type.Refine(Type.String(), isInt64Text),
  user: Type.Refine(Type.String(), isUser),
  name: Type.String(),
  tag: Type.Optional(Type.String()),
});
export type PlantCreated = Static<typeof PlantCreated>;

const isPlantCreated = Compile(PlantCreated);
const SCHEMA_VERSION = 1;

const PlantCreatedMetadata = Type.Object({
  $correlationId: Type.String(),
  schemaVersion: Type.Literal(SCHEMA_VERSION),
  occurredAt: Type.Refine(Type.String(), (text) => timeOf(text) !== undefined),
});
const isPlantCreatedMetadata = Compile(PlantCreatedMetadata);

export type CreatePlant = { user: string; id: bigint; name: string; tag?: string };

type Surroundings = { now: () => Date; newId: () => string; correlationId: string };

/** The id belongs to another plant of this user, which stands in the log at `position`. */
export class PlantIdTaken extends Error {
  override readonly name = 'PlantIdTaken';
  readonly position: Position;
  constructor(id: bigint, position: Position) {
    super(`plant ${id} exists with another content`);
    this.position = position;
  }
}

/** A PlantCreated that does not fit its schema: nothing can be said about this user's plants. */
export class MalformedPlantCreated extends Error {
  override readonly name = 'MalformedPlantCreated';
  readonly eventId: string;
  constructor(event: RecordedEvent) {
    super(`event ${event.id} at position ${event.position} is no valid PlantCreated`);
    this.eventId = event.id;
  }
}

/** How the names of the streams of plants begin. */
export const PLANT_STREAMS = 'plant-';

export function plantStream(user: string, id: bigint | string): string {
  return `${PLANT_STREAMS}${user}/${id}`;
}

/**
 * Creates a plant once. The log is the uniqueness rule: the stream must not exist yet, so no look-up comes first and
 * the same command may be repeated. Gives the position at which the plant stands in the log.
 * @throws PlantIdTaken, StoreUnavailable
 */
export async function createPlant(
  store: EventStore,
  command: CreatePlant,
  surroundings: Surroundings,
): Promise<Position> {
  const stream = plantStream(command.user, command.id);
  const event = plantCreated(command, surroundings);
  try {
    const { position, revision } = await store.append(stream, event, NO_STREAM);
    if (revision !== 0n)
      throw new Error(`stream ${stream} has been deleted: its plant cannot be created again`);
    return position;
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error;
    const [first] = await store.readStream(stream, 1);
    if (!first) throw new StoreUnavailable(`the first event of ${stream} cannot be read yet`);
    if (!isSame(command, first)) throw new PlantIdTaken(command.id, first.position);
    return first.position;
  }
}

function plantCreated(
  { user, id, name, tag }: CreatePlant,
  { now, newId, correlationId }: Surroundings,
): NewEvent {
  return {
    id: newId(),
    type: 'PlantCreated',
    data: { id: String(id), user, name, ...(tag === undefined ? {} : { tag }) },
    metadata: {
      $correlationId: correlationId,
      schemaVersion: SCHEMA_VERSION,
      occurredAt: now().toISOString(),
    },
  };
}

function isSame({ name, tag }: CreatePlant, { type, data }: RecordedEvent): boolean {
  return type === 'PlantCreated' && isPlantCreated.Check(data) && data.name === name && data.tag === tag;
}

/**
 * The plant that an event creates; undefined for an event that concerns no plant: another type, a stream whose name
 * does not parse, a later revision.
 * @throws MalformedPlantCreated
 */
export function readPlantCreated(event: RecordedEvent): PlantCreated | undefined {
  if (event.type !== 'PlantCreated' || event.revision !== 0n) return undefined;
  const { data } = event;
  if (isPlantCreated.Check(data) && event.stream === plantStream(data.user, data.id)) return data;
  if (!plantOfStream(event.stream)) return undefined;
  throw new MalformedPlantCreated(event);
}

/**
 * What keeps an event of this type from being one that `createPlant` has appended, to be read after its position;
 * undefined where nothing does. Stricter than `readPlantCreated`, which passes over what does not concern a plant.
 */
export function plantCreatedFault({
  id,
  stream,
  revision,
  data,
  metadata,
}: RecordedEvent): string | undefined {
  if (!isPlantCreated.Check(data)) return 'its data is not that of a PlantCreated';
  const own = plantStream(data.user, data.id);
  if (stream !== own)
    return `it is in the stream ${JSON.stringify(stream)}, but its data is of ${JSON.stringify(own)}`;
  if (revision !== 0n) return `it is a PlantCreated at revision ${revision} of its stream`;
  if (!isPlantCreatedMetadata.Check(metadata)) return 'its metadata is not that of a PlantCreated';
  if (!isInOrder(data, MEMBERS) || !isInOrder(metadata, METADATA_MEMBERS))
    return 'its members are not in the order in which they are written';
  if (!UUID.test(id)) return 'its id is no UUID';
  return undefined;
}

const MEMBERS = Object.keys(PlantCreated.properties);
const METADATA_MEMBERS = Object.keys(PlantCreatedMetadata.properties);

/** Whether the members that are known come in the order in which they are written. */
function isInOrder(value: object, members: readonly string[]): boolean {
  let last = -1;
  for (const name of Object.keys(value)) {
    const at = members.indexOf(name);
    if (at !== -1 && at < last) return false;
    if (at !== -1) last = at;
  }
  return true;
}

/** Whose plant a stream is, and which; undefined for another stream. */
export function plantOfStream(stream: string): { user: string; id: string } | undefined {
  if (!stream.startsWith(PLANT_STREAMS)) return undefined;
  const slash = stream.lastIndexOf('/');
  const [user, id] = [stream.slice(PLANT_STREAMS.length, slash), stream.slice(slash + 1)];
  return isUser(user) && isInt64Text(id) ? { user, id } : undefined;
}

export function isInt64Text(text: string): boolean {
  return /^(0|-?[1-9]\d{0,18})$/.test(text) && isInt64(BigInt(text));
}

export function isInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}
