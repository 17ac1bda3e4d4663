export { CloudEvent, occurredAt, toCloudEvent } from './cloudEvent.ts';
export { BadFilter, EventFilter, eventQuery, type EventQuery, type StreamNames } from './eventFilter.ts';
export { eventRoutes, NotAcceptable } from './eventRoutes.ts';
export { formatLogPosition, parseLogPosition } from './logPosition.ts';
export { limitSchema, textSchema } from './querySchemas.ts';
export { replay, UnknownUser } from './replay.ts';
