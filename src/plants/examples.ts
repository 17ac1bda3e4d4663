import type { CloudEvent } from '@event-sourced/event-log/replay';

const event: CloudEvent = {
  specversion: '1.0',
  id: '01a20510-4a95-78d4-b1fd-84f0027bcf9f',
  source: 'urn:plant-store',
  type: 'PlantCreated',
  subject: 'plant-alice/1',
  time: '2026-11-22T21:01:23.477Z',
  datacontenttype: 'application/json',
  data: { id: '1', user: 'alice', name: 'Fern', tag: 'indoor' },
  position: '1',
  revision: '0',
  correlationid: '0bf9000a-e593-43dc-9474-7457baaea011',
  schemaversion: 1,
  metadata:
    '{"$correlationId":"0bf9000a-e593-43dc-9474-7457baaea011","occurredAt":"2026-11-22T21:01:23.477Z","schemaVersion":1}',
};

// Made with a fixed key by a test that compares them: test/api/openapi.test.ts.
const logKey = 'plants.example/log+cacde9a6+AeR6UO/Zq8UgL5dp7JExFSMx6o5U7z2rQFV90Gc3OgXj\n';

const checkpoint = `plants.example/log
1
nuKcC5pp1Mm73Wl2oHppIOV/JdaPXVRpHTFMYbUuiGo=

— plants.example/log ys3ppkdsjvSDeuYEPz+7qhMQ8RCMjHH1B1qS4yNdVRgQrnB6cK3BK5W7IKAMxlG8fBWVNAFxyzbrnnikbIddsP7mtgo=
`;

/** What the OpenAPI document shows of auditing: a log of one event, with its key and its checkpoint. */
export const EXAMPLES = { event, logKey, checkpoint };
