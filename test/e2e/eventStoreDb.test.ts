import { expect, test } from 'vitest';
import { processOver } from '../support/eventStoreDbProcess.ts';
import { untilAvailable } from '../support/instances.ts';
import { expectNoPassword, MOST_VERBOSE, PASSWORD, secured } from '../support/securedFakeServer.ts';

// Kills, signals, faults of the server and starts that fail are in test/faults.

test('the service creates and lists plants in EventStoreDB with TLS, never prints the password at any log level, and exits with 0 on SIGTERM', async () => {
  const { server, cert, at } = await secured();
  const url = `esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`;
  const service = await processOver(url, MOST_VERBOSE);
  await untilAvailable(() => service.alice.create(1, { name: 'Fern' }));
  expect(await (await untilAvailable(() => service.alice.get())).json()).toEqual([{ name: 'Fern' }]);
  expect(server.log.stream('plant-alice/1')).toHaveLength(1);
  expect(await service.terminate()).toEqual({ code: 0, signal: null });
  expectNoPassword(service.stdout() + service.stderr());
});
