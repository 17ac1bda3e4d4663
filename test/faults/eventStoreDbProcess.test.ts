import { test } from 'vitest';
import { expectGracefulEnd, killUnderLoad } from '../support/eventStoreDbProcess.ts';

test.each<[string, Parameters<typeof expectGracefulEnd>[0]]>([
  ['a server that was never available', { later: 200 }],
  ['an available server', { fail: () => {}, later: 200 }],
  ['a server that has just stopped', { fail: (server) => server.stop(), later: 200 }],
  ['a frozen server', { fail: (server) => server.freeze(), later: 200 }],
  ['a server that stopped seconds ago', { fail: (server) => server.stop(), later: 3_000 }],
  ['a server that froze seconds ago', { fail: (server) => server.freeze(), later: 3_000 }],
])('SIGTERM stops the service gracefully during a POST to %s', (_, ending) => expectGracefulEnd(ending));

test('a service killed repeatedly loses no acknowledged plant, with or without its data directory', () =>
  killUnderLoad([1, 200, 500]));
