import { refusedWith } from '@event-sourced/testing/refusal';
import { slowClock } from '@event-sourced/testing/slowClock';
import { expect, test } from 'vitest';
import { created, listed, serviceOver } from '../support/eventStoreDbService.ts';
import { ready } from '../support/instances.ts';
import { expectNoPassword, PASSWORD, secured } from '../support/securedFakeServer.ts';

/** For this time a POST is repeated. */
const POST_TIMEOUT_MS = 8_000;
const RETRY_DELAY_MS = 500;
const REASON = /allow this user to append events$/;
const REFUSED = 'the account may not append; writes are refused';

/** A service whose account may append, and its server, which has a plant. */
async function overSecured() {
  const clock = slowClock();
  const { server, cert, at } = await secured();
  server.write('plantstore', { type: 'LogBegun' });
  server.write('plant-alice/1', { type: 'PlantCreated', data: { id: '1', user: 'alice', name: 'Fern' } });
  const service = await serviceOver(`esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`, {
    EVENTSTOREDB_TIMEOUT: '10',
  });
  await ready(service);
  const { bob } = service;
  const refusals = () => service.messages().filter((msg) => msg === REFUSED).length;
  /** A POST that the server refuses until its deadline. */
  const refused = async (id: number) => {
    const response = bob.create(id, { name: 'Oak' });
    // Once it is repeated, the service knows of the first refusal.
    const attempts = () => server.denied.filter((stream) => stream === `plant-bob/${id}`).length;
    await expect.poll(attempts).toBeGreaterThan(1);
    clock.pass(POST_TIMEOUT_MS);
    await refusedWith(50301, await response);
  };
  return { server, clock, service, bob, refusals, refused };
}

test('an account that may not append is reported once until a POST succeeds, and each POST is repeated', async () => {
  const { server, service, bob, refusals, refused } = await overSecured();
  server.readers.add('admin');
  await refused(1);
  const reason = { message: expect.stringMatching(REASON) };
  expect(await (await service.readiness()).json()).toEqual({ error: 50301, ...reason });
  for (const id of [2, 3]) await refused(id);
  const lines = service.log().filter(({ msg }) => msg === REFUSED);
  expect(lines).toEqual([expect.objectContaining({ level: 50, reason: expect.stringMatching(REASON) })]);
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);

  server.readers.clear();
  await created(bob, 1, 'Oak');
  expect(await service.isReady()).toBe(true);
  expect(service.messages()).toContain('the account may append');
  expect(refusals()).toBe(1);
  expect(await listed(bob)).toEqual([{ name: 'Oak' }]);
  expectNoPassword(JSON.stringify(service.log()));
});

test('an account that gets into a group is known by the next POST, although a call keeps the groups of its start', async () => {
  const { server, bob, refused } = await overSecured();
  server.keepsRights = true;
  server.readers.add('admin');
  server.breakConnections();
  await refused(1);
  server.readers.clear();
  await created(bob, 1, 'Oak');
});

test('a stream that the account may not append to affects no other POST', async () => {
  const { server, clock, service, bob, refusals } = await overSecured();
  server.protectedStreams.add('plant-bob/13');
  const response = bob.create(13, { name: 'Oak' });
  await expect.poll(() => server.denied).toContain('plant-bob/13');
  await created(bob, 14, 'Oak');
  clock.pass(POST_TIMEOUT_MS);
  await refusedWith(50301, await response);
  await created(bob, 15, 'Oak');
  expect(await service.isReady()).toBe(true);
  expect(refusals()).toBe(0);
});

test('a refusal that ends before the deadline of a POST fails no request', async () => {
  const { server, clock, service, bob, refusals } = await overSecured();
  server.readers.add('admin');
  const creation = bob.create(2, { name: 'Oak' });
  await expect.poll(() => server.denied).toContain('plant-bob/2');
  expect(await service.isReady()).toBe(true);
  server.readers.clear();
  clock.pass(RETRY_DELAY_MS);
  expect((await creation).status).toBe(200);
  expect(refusals()).toBe(0);
});
