import { CloudEvent } from 'cloudevents';
import isBySchema from 'cloudevents/dist/schema/v1.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { toCloudEvent } from '../../packages/event-log/src/replay/cloudEvent.ts';
import { anyEvent, FERN, FORMAT } from '../../packages/event-log/test/replay/cloudEvents.ts';

/** An event as a client receives it, and as the official SDK reads it. */
function read(event: RecordedEvent) {
  const received = JSON.parse(JSON.stringify(toCloudEvent(event, FORMAT)));
  expect(isBySchema(received), JSON.stringify(received)).toBe(true);
  return { received, event: new CloudEvent(received, true) };
}

test('the official schema and SDK accept the event of a plant, unchanged', () => {
  const { received, event } = read(FERN);
  expect(JSON.parse(JSON.stringify(event))).toEqual(received);
});

test('the official schema and SDK accept every event of another writer, with its bytes', () => {
  fc.assert(
    fc.property(anyEvent(), (one) => {
      const { received, event } = read(one);
      expect(event.data_base64).toBe(received.data_base64);
    }),
    { numRuns: 200 },
  );
});
