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

const logKey = 'plants.example/log+32694b4e+AX2zqZW9+e7PKNBL7h4e1vfm5qB0izw3wHrcltwage96\n';

const checkpoint = `plants.example/log
1
WqWXVcnlPkcCO6/Rdh4jzr1gLxVZTpWCut6TpCogsdg=

— plants.example/log MmlLTgzb9vs5GSLJJbTTOrF6GxyB+QxoSXy/CB4iltinxFsLT6gme4Tn3XZ/dColxgiN9D/8aa36+TxV2hTcOHhAPQw=
`;

/** What the OpenAPI document shows of auditing: a log of one event, with its key and its checkpoint. */
export const EXAMPLES = { event, logKey, checkpoint };
