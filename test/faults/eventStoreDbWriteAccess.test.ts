import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import {
  ACCESS_RETRY_INTERVAL_MS,
  ACCOUNTS_TIMEOUT_MS,
} from '../../packages/event-log/src/eventStoreDb/accessCheck.ts';
import { Connection } from '../../packages/event-log/src/eventStoreDb/connection.ts';
import { WRITE_ACCESS_INTERVAL_MS } from '../../packages/event-log/src/eventStoreDb/writeAccess.ts';
import { created, listed, serviceOver } from '../support/eventStoreDbService.ts';
import { ready } from '../support/instances.ts';
import { refusedWith } from '../support/refusal.ts';
import { expectNoPassword, PASSWORD, secured } from '../support/securedFakeServer.ts';
import { slowClock } from '../support/slowClock.ts';

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
  const { server, clock, start } = await readOnly();
  const service = await start();
  await ready(service);
  await created(service.bob, 1, 'Oak');
  server.readers.add('admin');
  const refused = [2, 3].map((id) => service.bob.create(id, { name: 'Oak' }));
  const denied = ['plant-bob/2', 'plant-bob/3', 'plant-access-check'];
  await expect.poll(() => server.denied).toEqual(expect.arrayContaining(denied));
  clock.pass(ACCOUNTS_TIMEOUT_MS);
  for (const response of refused) await refusedWith(50301, await response);
  await refusedWith(50301, await service.bob.create(4, { name: 'Oak' }));
  expect(server.denied.filter((stream) => stream.startsWith('plant-bob/')).sort()).toEqual([
    'plant-bob/2',
    'plant-bob/3',
  ]);
  expect(await (await service.readiness()).json()).toMatchObject({ message: expect.stringMatching(REASON) });
  expect(await listed(service.bob)).toEqual([{ name: 'Oak' }]);
});

test('a stream that the account may not append to affects no other request', async () => {
  const { server, clock, start } = await readOnly();
  server.protectedStreams.add('plant-bob/13');
  const service = await start();
  await ready(service);
  using ended = vi.spyOn(Connection.prototype, 'end');
  await refusedWith(50301, await service.bob.create(13, { name: 'Oak' }));
  expect(await service.isReady()).toBe(true);
  await created(service.alice, 2, 'Elm');
  clock.pass(WRITE_ACCESS_INTERVAL_MS);
  await created(service.bob, 14, 'Oak');
  expect(ended).not.toHaveBeenCalled();
  expect(service.messages()).not.toContain('the account may not append; writes are refused');
  const reason = 'the account may append, but not to stream plant-bob/13';
  const refused = service.log().filter(({ msg }) => msg === 'requests refused');
  expect(refused.map((line) => line.reason)).toEqual([expect.stringContaining(reason)]);
});

test('a refusal that lasts less than a few seconds fails no request', async () => {
  const { server, clock, start } = await readOnly();
  const service = await start();
  await ready(service);
  await created(service.bob, 1, 'Oak');
  server.readers.add('admin');
  const creation = service.bob.create(2, { name: 'Oak' });
  await expect.poll(() => server.denied).toContain('plant-access-check');
  expect(await service.isReady()).toBe(true);
  server.readers.clear();
  clock.pass(ACCESS_RETRY_INTERVAL_MS);
  expect((await creation).status).toBe(200);
  expect(service.messages()).not.toContain('the account may not append; writes are refused');
});

test('a store that is closed while its permission is checked ends the connection of the check', async () => {
  const { server, clock, start } = await readOnly();
  server.readers.add('admin');
  const service = await start();
  await expect.poll(() => service.messages()).toContain('the account may not append; writes are refused');
  using call = vi.spyOn(Connection.prototype, 'call');
  server.freeze();
  clock.pass(WRITE_ACCESS_INTERVAL_MS);
  const check = () => call.mock.calls.findIndex(([operation]) => operation === 'append');
  while (check() < 0) await nextTurn();
  const connection = call.mock.contexts[check()] as Connection;
  let isClosed = false;
  void service.close().then(() => {
    isClosed = true;
  });
  // Less than the check's own time-out, however many turns the threads take to end.
  for (let passed = 0; !isClosed; passed += 10) {
    if (passed < 5_000) clock.pass(10);
    await nextTurn();
  }
  expect(connection.endReason).toBe('the access check is done');
});
