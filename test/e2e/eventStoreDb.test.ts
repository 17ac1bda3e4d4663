import { EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { processOver } from '../support/eventStoreDbProcess.ts';
import { untilAvailable } from '../support/load.ts';
import { NODE, start } from '../support/process.ts';
import {
  expectNoPassword,
  expectNoStart,
  MOST_VERBOSE,
  PASSWORD,
  secured,
} from '../support/securedFakeServer.ts';

// The service over EventStoreDB as a process; kills, signals and other failed starts are in test/faults.

describe('a server with TLS and accounts', () => {
  test('never has its password printed at any log level', async () => {
    const { server, cert, at } = await secured();
    const url = `esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`;
    const service = await processOver(url, MOST_VERBOSE);
    const drops = () => service.messages().filter((msg) => msg.includes('subscription dropped')).length;
    await untilAvailable(() => service.alice.create(1, { name: 'Fern' }));
    await expect.poll(() => server.openSubscriptions).toBe(1);
    server.dropSubscriptions('internal');
    await expect.poll(drops).toBeGreaterThan(0);
    await untilAvailable(() => service.alice.create(2, { name: 'Ivy' }));
    await expect.poll(() => server.openSubscriptions).toBe(1);
    const before = service.messages().length;
    await server.stop();
    await expect.poll(() => service.messages().length).toBeGreaterThan(before);
    await service.terminate();
    expectNoPassword(service.stdout() + service.stderr());
  });

  test('makes a start with a wrong password fail with a message', () =>
    expectNoStart('wrong-password', 'tls=true&tlsCAFile=', /cannot use EVENTSTOREDB_URL: .*\bpassword\b/));
});

test('the fake server as a process prints its URL, has --plants plants, and exits on SIGTERM', async () => {
  const command = [NODE, 'test/fakeEventStoreDb/main.ts', '--plants', '3', '--unary'];
  const server = start({ command });
  const [url = ''] = await server.printed(/esdb:\S+(?=\n)/);
  const client = EventStoreDBClient.connectionString(url);
  onTestFinished(() => client.dispose());
  const plants = await Array.fromAsync(client.readAll());
  expect(plants.map(({ event }) => event?.streamId)).toEqual(['plant-u0/0', 'plant-u1/1', 'plant-u2/2']);
  expect(plants[2]?.event?.data).toEqual({ id: '2', user: 'u2', name: 'Plant 2' });
  await client.appendToStream('plant-alice/1', jsonEvent({ type: 'Written', data: {} }));
  process.kill(server.pid, 'SIGTERM');
  expect(await server.ended).toEqual({ code: 0, signal: null });
});
