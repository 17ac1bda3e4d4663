import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { untilSettled } from '@event-sourced/testing/clock';
import { cluster } from '@event-sourced/testing/eventStoreDbStore';
import { refusedWith } from '@event-sourced/testing/refusal';
import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, test } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../packages/event-log/src/views/waiting.ts';
import { created, listed, serviceOver } from '../support/eventStoreDbService.ts';
import { ready, untilAvailable } from '../support/instances.ts';

/** The longest delay between attempts to connect, in milliseconds. */
const LONGEST_DELAY_MS = 3_000;

test('a server that is unavailable at the start is waited for: the service logs it, returns 503, and recovers automatically', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  await server.stop();
  const service = await serviceOver(server.url);
  expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
  await expect.poll(service.messages).toContain('event store unavailable; projection is waiting');
  const readiness = await service.readiness();
  expect(readiness.status).toBe(503);
  expect(await readiness.json()).toEqual({
    error: 50302,
    message: expect.stringMatching(/^the event store is unavailable: .*ECONNREFUSED/),
  });

  const [list, waited] = await untilSettled(service.alice.get());
  expect(await refusedWith(50302, list)).toMatch(/retry/);
  expect(waited).toBeGreaterThanOrEqual(REACHED_TIMEOUT_MS);
  const [creation] = await untilSettled(service.bob.create(1, { name: 'Oak' }));
  expect(await refusedWith(50301, creation)).toMatch(/can be repeated safely/);
  for (const response of [list, creation]) expect(response.headers.get('retry-after')).toBe('1');

  const waiting = untilAvailable(() => service.alice.get());
  await server.restart();
  clock.pass(LONGEST_DELAY_MS);
  await ready(service);
  expect(await (await waiting).json()).toEqual([]);
  expect((await untilAvailable(() => service.bob.create(1, { name: 'Oak' }))).status).toBe(200);
  expect((await untilAvailable(() => service.alice.create(1, { name: 'Fern' }))).status).toBe(200);
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);
  expect(await listed(service.bob)).toEqual([{ name: 'Oak' }]);
  const ofView = service.log().filter(({ view }) => view === 'plantsByUser');
  expect(ofView.map(({ msg }) => msg).filter((msg) => msg.startsWith('event store'))).toEqual([
    'event store unavailable; projection is waiting',
    'event store available',
  ]);
});

test('a server that becomes unavailable later makes a POST 503, and a list if it lacks plants that its user knows of, and no other', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  const service = await serviceOver(server.url);
  await ready(service);
  const before = await created(service.alice, 1, 'Fern');
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);
  const ofElm = await created(service.bob, 1, 'Elm');
  expect(await listed(service.bob)).toEqual([{ name: 'Elm' }]);
  server.holdAfter(server.log.all.length);
  await created(service.alice, 2, 'Ivy');
  await server.stop();
  const [logId, position] = before.split('.');
  const beyond = { 'log-position': `${logId}.${Number(position) + 1_000_000}` };
  for (const headers of [{}, { 'log-position': ofElm }]) {
    const response = await service.bob.get('', headers);
    expect(await response.json()).toEqual([{ name: 'Elm' }]);
  }
  expect(await service.isReady()).toBe(true);
  const [creation] = await untilSettled(service.bob.create(2, { name: 'Oak' }));
  await refusedWith(50301, creation);
  const [responses] = await untilSettled(
    Promise.all([
      service.alice.get(),
      service.alice.get('', { 'log-position': before }),
      service.alice.get('', beyond),
    ]),
  );
  for (const response of responses) await refusedWith(50302, response);
  server.holdAfter(Number.POSITIVE_INFINITY);
  await server.restart();
  clock.pass(LONGEST_DELAY_MS);
  expect((await untilAvailable(() => service.bob.create(2, { name: 'Oak' }))).status).toBe(200);
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
});

describe('a view is not rebuilt', () => {
  test('when the service starts on a former leader; it waits for the log', async () => {
    const { first, second, elect, url } = await cluster({ shared: false });
    const id = randomUUID();
    for (const node of [first, second]) node.write('plantstore', { id, type: 'LogBegun' });
    elect(second);
    const before = await serviceOver(url);
    await created(before.alice, 1, 'Fern');
    await listed(before.alice);
    await before.close();

    elect(first); // which does not have the plant
    slowClock(); // the node is believed after some seconds
    const again = await serviceOver(url, { DATA_DIR: before.dir, EVENTSTOREDB_TIMEOUT: '10' });
    await expect.poll(again.messages).toContain('event store unavailable; projection is waiting');
    elect(second);
    first.notLeader(1, { address: '127.0.0.1', port: second.port });
    expect(await listed(again.alice)).toEqual([{ name: 'Fern' }]);
    expect(again.messages()).not.toContain('rebuilding view');
  });

  test('when the leader dies and the other node lags; no list gets shorter', async () => {
    const { first: leader, second: follower, elect, url } = await cluster({ shared: false });
    const firstEvent = { id: randomUUID(), type: 'LogBegun' };
    for (const node of [leader, follower]) node.write('plantstore', firstEvent);
    const service = await serviceOver(url);
    await ready(service);
    await created(service.alice, 1, 'Fern');
    expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);
    await leader.stop();
    elect(undefined);
    while (follower.calls.read < 3) {
      expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
      await pause(100);
    }
    expect(service.messages()).not.toContain('rebuilding view');
  });
});
