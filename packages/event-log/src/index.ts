export { type AppendRequest, appendRequest } from './appendRequest.ts';
export { newEventId, UUID } from './eventId.ts';
export {
  type Appended,
  type AppendOutcome,
  type BackwardRange,
  type Batch,
  canErase,
  type ErasableStore,
  type EventLog,
  type EventStore,
  EventUnreadable,
  type ForwardRange,
  hasIndices,
  type IndexedLog,
  InvalidEvent,
  LogDamaged,
  LogReplaced,
  type NewEvent,
  NO_LOG_ID,
  NO_STREAM,
  PAGE_LENGTH,
  type Page,
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
export { BadPosition, isPosition, parsePosition } from './position.ts';
export { assertReached, readToEnd } from './readEvents.ts';
