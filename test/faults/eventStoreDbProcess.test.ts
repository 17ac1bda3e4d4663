import { test } from 'vitest';
import { expectProperEnd, killUnderLoad } from '../support/eventStoreDbProcess.ts';

test.each<[string, Parameters<typeof expectProperEnd>[0]]>([
  ['a server that never was there', { later: 200 }],
  ['a server that is there', { fail: () => {}, later: 200 }],
  ['a server that has just gone', { fail: (server) => server.stop(), later: 200 }],
  ['a server that is gone for seconds', { fail: (server) => server.stop(), later: 3_000 }],
  ['a server that stands still for seconds', { fail: (server) => server.freeze(), later: 3_000 }],
])('SIGTERM ends the service in good order while a POST is on its way to %s', (_, ending) =>
  expectProperEnd(ending),
);

test('a service that is killed again and again has lost nothing that it acknowledged, wherever it starts again', () =>
  killUnderLoad([1, 200, 500]));
