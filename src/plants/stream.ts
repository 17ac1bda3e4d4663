import type { StreamNames } from '@event-sourced/event-log/replay';
import { isUser, USER_RULE } from './user.ts';

// The names of plant streams.

/** The prefix of plant streams; in EventStoreDB's terms, their category is `plant`. */
export const PLANT_STREAM_PREFIX = 'plant-';

export function plantStream(user: string, id: bigint | string): string {
  return `${PLANT_STREAM_PREFIX}${user}/${id}`;
}

/** The streams of a user: a user may be the beginning of another one, also with a slash. */
export function plantStreamsOf(user: string) {
  const start = plantStream(user, '');
  return { start, has: (stream: string): boolean => stream.slice(0, stream.lastIndexOf('/') + 1) === start };
}

/** Whether an event of this type can have this revision: `PlantCreated` starts a plant's stream, every other type continues it. */
export const canHaveRevision = (type: string, revision: bigint): boolean =>
  (type === 'PlantCreated') === (revision === 0n);

/** The user and the plant ID in a stream name; undefined for other streams. */
export function parsePlantStream(stream: string): { user: string; id: string } | undefined {
  if (!stream.startsWith(PLANT_STREAM_PREFIX)) return undefined;
  const slash = stream.lastIndexOf('/');
  const [user, id] = [stream.slice(PLANT_STREAM_PREFIX.length, slash), stream.slice(slash + 1)];
  return isUser(user) && isInt64Text(id) ? { user, id } : undefined;
}

/** The rule for an ID, for messages. */
const INT64_RULE = 'a 64-bit integer in decimal digits';

/** Whether a text is a 64-bit integer in canonical decimal form. */
export function isInt64Text(text: string): boolean {
  return /^(0|-?[1-9]\d{0,18})$/.test(text) && isInt64(BigInt(text));
}

export function isInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}

/** What filters of events know of plant streams. */
export const PLANT_STREAMS: StreamNames = {
  noun: 'plant',
  all: PLANT_STREAM_PREFIX,
  parse: parsePlantStream,
  prefix: (user, id = '') => plantStream(user, id),
  user: { isValid: isUser, rule: USER_RULE },
  id: { isValid: isInt64Text, rule: INT64_RULE },
};
