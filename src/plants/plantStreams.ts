import { eventQuery, type StreamNames, textSchema } from '@event-sourced/event-log/replay';
import { INT64_RULE, isInt64Text, parsePlantStream, plantStream } from './stream.ts';
import { isUser, USER_RULE } from './user.ts';

/** The streams of plants, by which events are filtered. */
export const PLANT_STREAMS: StreamNames = {
  parse: parsePlantStream,
  prefix: (user, id = '') => plantStream(user, id),
  user: textSchema(isUser, USER_RULE, {
    description: 'Only events of this user’s plants. Without after, the log must have one.',
  }),
  id: textSchema(isInt64Text, INT64_RULE, { description: 'Only events of plants with this ID.' }),
};

/** The filters of the service's events, as text. */
export const PlantEventQuery = eventQuery(PLANT_STREAMS);
