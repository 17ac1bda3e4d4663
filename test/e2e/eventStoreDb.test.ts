import { expect, test } from 'vitest';
import { processOver } from '../support/eventStoreDbProcess.ts';
import { listed } from '../support/eventStoreDbService.ts';
import { untilAvailable } from '../support/instances.ts';
import { expectNoPassword, MOST_VERBOSE, PASSWORD, secured } from '../support/securedFakeServer.ts';

// Kills, signals and starts that fail are in test/faults.

test('the service creates and lists plants in EventStoreDB with TLS, never prints the password at any log level, also when subscriptions drop and the server stops, and exits with 0 on SIGTERM', async () => {
  const { server, cert, at } = await secured();
  const url = `esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`;
  const service = await processOver(url, MOST_VERBOSE);
  const drops = () => service.messages().filter((msg) => msg.includes('subscription dropped')).length;
  await untilAvailable(() => service.alice.create(1, { name: 'Fern' }));
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);
  expect(server.log.stream('plant-alice/1')).toHaveLength(1);
  await expect.poll(() => server.openSubscriptions).toBe(1);
  server.dropSubscriptions('internal');
  await expect.poll(drops).toBeGreaterThan(0);
  await untilAvailable(() => service.alice.create(2, { name: 'Ivy' }));
  await expect.poll(() => server.openSubscriptions).toBe(1);
  const before = service.messages().length;
  await server.stop();
  await expect.poll(() => service.messages().length).toBeGreaterThan(before);
  expect(await service.terminate()).toEqual({ code: 0, signal: null });
  expectNoPassword(service.stdout() + service.stderr());
});
