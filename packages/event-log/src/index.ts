export { newEventId, UUID } from './eventId.ts';
export {
  type AppendOutcome,
  type Batch,
  canErase,
  type ErasableStore,
  type EventLog,
  type EventStore,
  InvalidEvent,
  LogDamaged,
  LogReplaced,
  type NewEvent,
  NO_LOG_ID,
  NO_STREAM,
  type Position,
  type RecordedEvent,
  START,
  type StoreObserver,
  StoreUnavailable,
  StreamDeleted,
  type Stub,
  WrongExpectedRevision,
} from './eventStore.ts';
export type { Logger } from './logger.ts';
export { BadPosition, parsePosition } from './position.ts';
export { assertReached, readToEnd } from './readEvents.ts';
