import { expect, test } from 'vitest';
import { expectGracefulEnd, processOver } from '../support/eventStoreDbProcess.ts';
import { untilAvailable } from '../support/instances.ts';
import { expectNoPassword, MOST_VERBOSE, PASSWORD, secured } from '../support/securedFakeServer.ts';

test.each<[string, Parameters<typeof expectGracefulEnd>[0]]>([
  ['a server that was never available', { later: 200 }],
  ['an available server', { fail: () => {}, later: 200 }],
  ['a server that has just stopped', { fail: (server) => server.stop(), later: 200 }],
  ['a frozen server', { fail: (server) => server.freeze(), later: 200 }],
  ['a server that stopped seconds ago', { fail: (server) => server.stop(), later: 3_000 }],
  ['a server that froze seconds ago', { fail: (server) => server.freeze(), later: 3_000 }],
])('SIGTERM stops the service gracefully during a POST to %s', (_, ending) => expectGracefulEnd(ending));

test('the password of a server with TLS is never printed at any log level, also when subscriptions drop and the server stops', async () => {
  const { server, cert, at } = await secured();
  const url = `esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`;
  const service = await processOver(url, MOST_VERBOSE);
  const drops = () => service.messages().filter((msg) => msg.includes('subscription dropped')).length;
  await untilAvailable(() => service.alice.create(1, { name: 'Fern' }));
  await expect.poll(() => server.openSubscriptions).toBe(2); // of the view, and of deleted streams
  server.dropSubscriptions('internal');
  await expect.poll(drops).toBeGreaterThan(0);
  await untilAvailable(() => service.alice.create(2, { name: 'Ivy' }));
  await expect.poll(() => server.openSubscriptions).toBe(2); // of the view, and of deleted streams
  const before = service.messages().length;
  await server.stop();
  await expect.poll(() => service.messages().length).toBeGreaterThan(before);
  await service.terminate();
  expectNoPassword(service.stdout() + service.stderr());
});
