export {
  digestInStub,
  EVENT_ERASED,
  EVENTS_ERASED,
  type EventDigest,
  isStub,
  MAX_NAMED_EVENTS,
  parseRecord,
  recordStreams,
  stubStream,
} from './erasure.ts';
