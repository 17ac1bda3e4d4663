import { EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { expectProperEnd, killUnderLoad, processOver } from '../support/eventStoreDbProcess.ts';
import { answered } from '../support/load.ts';
import { NODE, start } from '../support/process.ts';
import { EVERYTHING, expectNoPassword, expectNoStart, PASSWORD, secured } from '../support/securedDouble.ts';

// What the service over EventStoreDB does as a process; more kills, signals and refused starts are in test/faults.

test('SIGTERM ends the service in good order while a POST waits for a server that stands still', () =>
  expectProperEnd({ fail: (server) => server.freeze(), later: 200 }));

test('a service that is killed has lost nothing that it acknowledged, wherever it starts again', () =>
  killUnderLoad([60]));

describe('a server with TLS and accounts', () => {
  test('never has its password printed, whatever is to be printed', async () => {
    const { server, cert, at } = await secured();
    const url = `esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`;
    const service = await processOver(url, EVERYTHING);
    const drops = () => service.messages().filter((msg) => msg.includes('dropped the subscription')).length;
    await answered(() => service.alice.create(1, { name: 'Fern' }));
    await expect.poll(() => server.openSubscriptions).toBe(1);
    server.dropSubscriptions('internal');
    await expect.poll(drops).toBeGreaterThan(0);
    await answered(() => service.alice.create(2, { name: 'Ivy' }));
    await expect.poll(() => server.openSubscriptions).toBe(1);
    const before = drops();
    await server.stop();
    await expect.poll(drops).toBeGreaterThan(before);
    await service.terminate();
    expectNoPassword(service.stdout() + service.stderr());
  });

  test('ends the start with a message where the connection string has a wrong password', () =>
    expectNoStart('wrong-password', 'tls=true&tlsCAFile=', /cannot be used: .*\bpassword\b/));
});

test('the fake server as a process prints its URL, holds the plants asked for, and ends on SIGTERM', async () => {
  const command = [NODE, 'test/support/eventStoreDbDoubleServer.ts', '--plants', '3', '--unary'];
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
