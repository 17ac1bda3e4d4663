import { EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { expect, onTestFinished, test } from 'vitest';
import { NODE, start } from '../support/process.ts';

test('the fake server as a process prints its URL, has --plants plants, and exits on SIGTERM', async () => {
  const command = [NODE, 'test/fakeEventStoreDb/main.ts', '--plants', '3'];
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
