import type { StreamNames } from '@event-sourced/event-log/replay';
import { INT64_RULE, isInt64Text, parsePlantStream, plantStream } from './stream.ts';
import { isUser, USER_RULE } from './user.ts';

/** The names of plant streams, for filters of events. This module also runs in browsers. */
export const PLANT_STREAMS: StreamNames = {
  noun: 'plant',
  parse: parsePlantStream,
  prefix: (user, id = '') => plantStream(user, id),
  user: { isValid: isUser, rule: USER_RULE },
  id: { isValid: isInt64Text, rule: INT64_RULE },
};
