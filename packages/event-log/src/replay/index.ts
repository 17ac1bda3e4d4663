export { CloudEvent, occurredAt, toCloudEvent } from './cloudEvent.ts';
export {
  assertReadable,
  BadFilter,
  EventFilter,
  type EventQuery,
  eventQuery,
  type StreamNames,
} from './eventFilter.ts';
export { formatLogPosition, parseLogPosition } from './logPosition.ts';
export { limitSchema, textSchema } from './querySchemas.ts';
export { replay, UnknownUser } from './replay.ts';
