import { expect, test } from 'vitest';
import { WRITE_ACCESS_INTERVAL_MS } from '../../../src/eventStore/eventStoreDb/writeAccess.ts';
import { created, listed, serviceOver } from '../../support/eventStoreDbService.ts';
import { ready } from '../../support/load.ts';
import { refusedWith } from '../../support/refusal.ts';
import { expectNoPassword, PASSWORD, secured } from '../../support/securedFakeServer.ts';
import { slowClock } from '../../support/slowClock.ts';

const REASON = /allow this user to append events$/;

/** A server and a service whose account may only read, with a plant. */
async function readOnly() {
  const clock = slowClock();
  const { server, cert, at } = await secured();
  const data = { id: '1', user: 'alice', name: 'Fern' };
  server.write('plant-alice/1', { type: 'PlantCreated', data });
  const start = () => serviceOver(`esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`);
  return { server, clock, start };
}

test('an account that may not append is reported at once, and recovers without a restart', async () => {
  const { server, clock, start } = await readOnly();
  server.readers.add('admin');
  const service = await start();
  const reason = { message: expect.stringMatching(REASON) };
  await expect.poll(async () => (await service.readiness()).json()).toEqual({ error: 50301, ...reason });
  const line = service.log().filter(({ msg }) => msg === 'the account may not append; writes are refused');
  expect(line).toEqual([expect.objectContaining({ level: 50, reason: expect.stringMatching(REASON) })]);
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);

  await refusedWith(50301, await service.bob.create(1, { name: 'Oak' }));
  expect(server.denied).not.toContain('plant-bob/1');

  server.readers.clear();
  clock.pass(WRITE_ACCESS_INTERVAL_MS);
  await ready(service);
  await created(service.bob, 1, 'Oak');
  expect(server.log.all).toHaveLength(2);
  expectNoPassword(JSON.stringify(service.log()));
});

test('an account that loses its permission to append is not asked again for each request', async () => {
  const { server, start } = await readOnly();
  const service = await start();
  await ready(service);
  await created(service.bob, 1, 'Oak');
  server.readers.add('admin');
  for (let id = 2; id < 5; id++) await refusedWith(50301, await service.bob.create(id, { name: 'Oak' }));
  expect(server.denied.filter((stream) => stream.startsWith('plant-bob/'))).toEqual(['plant-bob/2']);
  expect(await (await service.readiness()).json()).toMatchObject({ message: expect.stringMatching(REASON) });
  expect(await listed(service.bob)).toEqual([{ name: 'Oak' }]);
});
