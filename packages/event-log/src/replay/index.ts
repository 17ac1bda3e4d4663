export { CloudEvent, cloudEventLine, occurredAt, toCloudEvent } from './cloudEvent.ts';
export {
  assertKnownUser,
  assertReadable,
  BadFilter,
  EventFilter,
  type EventQuery,
  eventQuery,
  type StreamNames,
  UnknownUser,
} from './eventFilter.ts';
export { formatLogPosition, parseLogPosition } from './logPosition.ts';
export { limitSchema, textSchema } from './querySchemas.ts';
export { formatEnd, type ReplayBatch, replay } from './replay.ts';
