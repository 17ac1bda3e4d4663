import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { describe, expect, test } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../projections/follow.ts';
import { FIRST_REPLY_TIMEOUT_MS } from '../../src/eventStore/eventStoreDb/connection.ts';
import type { FakeEventStoreDb } from '../fakeEventStoreDb/server.ts';
import { untilSettled } from '../support/clock.ts';
import { positionIn, serviceOver, startFakeServerLater } from '../support/eventStoreDbService.ts';
import { ready, untilAvailable } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';
import { slowClock } from '../support/slowClock.ts';
import { startFakeServer } from '../support/stores.ts';

/** The longest delay between attempts to connect, in milliseconds. */
const LONGEST_DELAY_MS = 7_500;

describe('a server that is unavailable at the start', () => {
  test('is waited for: the service logs it, returns 503, and recovers automatically', async () => {
    const clock = slowClock();
    const server = await startFakeServerLater();
    const service = await serviceOver(server.url);
    expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
    await expect.poll(service.messages).toContain('event store unavailable; projection is waiting');
    const readiness = await service.readiness();
    expect(readiness.status).toBe(503);
    expect(await readiness.json()).toEqual({
      error: 50302,
      message: expect.stringMatching(/^the event store is unavailable: .*ECONNREFUSED/),
    });

    const [list, listed] = await untilSettled(service.alice.get());
    expect(await refusedWith(50302, list)).toMatch(/retry/);
    expect(listed).toBeGreaterThanOrEqual(REACHED_TIMEOUT_MS);
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
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    expect(await (await untilAvailable(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
    expect(service.messages().filter((msg) => msg.startsWith('event store'))).toEqual([
      'event store unavailable; projection is waiting',
      'event store available',
    ]);
  });

  test('is waited for in the same way if it does not respond', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    server.freeze();
    const starting = serviceOver(server.url);
    clock.pass(FIRST_REPLY_TIMEOUT_MS);
    const service = await starting;
    const [creation] = await untilSettled(service.bob.create(1, { name: 'Oak' }));
    await refusedWith(50301, creation);
    expect(await service.isReady()).toBe(false);
    server.thaw();
    clock.pass(LONGEST_DELAY_MS);
    await ready(service);
    expect((await untilAvailable(() => service.bob.create(1, { name: 'Oak' }))).status).toBe(200);
    expect(await (await untilAvailable(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
  });
});

describe('a server that becomes unavailable later', () => {
  test('does not affect lists', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    const service = await serviceOver(server.url);
    await ready(service);
    const position = positionIn(await service.alice.create(1, { name: 'Fern' }));
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    await server.stop();
    const [creation] = await untilSettled(service.alice.create(2, { name: 'Ivy' }));
    await refusedWith(50301, creation);
    for (const headers of [{}, { 'log-position': position }]) {
      const response = await service.alice.get('', headers);
      expect(await response.json()).toEqual([{ name: 'Fern' }]);
    }
    expect(await service.bob.list()).toEqual([]);
    expect(await service.isReady()).toBe(true);
    await server.restart();
    clock.pass(LONGEST_DELAY_MS);
    expect((await untilAvailable(() => service.alice.create(2, { name: 'Ivy' }))).status).toBe(200);
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([
      { name: 'Fern' },
      { name: 'Ivy' },
    ]);
  });

  test('makes a list 503 if it lacks acknowledged or known plants', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    const service = await serviceOver(server.url);
    await ready(service);
    const before = positionIn(await service.alice.create(1, { name: 'Fern' }));
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    server.holdAfter(server.log.all.length);
    expect((await service.alice.create(2, { name: 'Ivy' })).status).toBe(200);
    await server.stop();
    const [logId, position] = before.split('.');
    const beyond = { 'log-position': `${logId}.${Number(position) + 1_000_000}` };
    const [responses] = await untilSettled(
      Promise.all([
        service.alice.get(),
        service.bob.get(),
        service.alice.get('', { 'log-position': before }),
        service.alice.get('', beyond),
      ]),
    );
    for (const response of responses) await refusedWith(50302, response);
    server.holdAfter(Number.POSITIVE_INFINITY);
    await server.restart();
    clock.pass(LONGEST_DELAY_MS);
    expect((await untilAvailable(() => service.bob.create(1, { name: 'Oak' }))).status).toBe(200);
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([
      { name: 'Fern' },
      { name: 'Ivy' },
    ]);
  });
});

describe('a view is not rebuilt', () => {
  test('when reads fail on the server', async () => {
    const server = await startFakeServer();
    const service = await serviceOver(server.url);
    await ready(service);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    server.dropSubscriptions('end');
    server.failReads(2, status.UNKNOWN);
    server.write('plant-alice/2', {
      type: 'PlantCreated',
      data: { id: '2', user: 'alice', name: 'Ivy' },
    });
    const list = async () => (await untilAvailable(service.alice.get)).json();
    await expect.poll(list).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
    expect(service.messages()).not.toContain('rebuilding view');
  });

  test('when the leader dies and the other node lags; no list gets shorter', async () => {
    const [leader, follower] = [await startFakeServer(), await startFakeServer()];
    const nodes = [leader, follower];
    const firstEvent = { id: randomUUID() };
    for (const node of nodes) node.write('begun', firstEvent);
    const elect = (elected: FakeEventStoreDb | undefined) => {
      const state = (node: FakeEventStoreDb) =>
        node === elected ? ('leader' as const) : ('follower' as const);
      const members = nodes.map((node) => ({ port: node.port, state: state(node) }));
      for (const node of nodes) node.setMembers(members);
    };
    elect(leader);
    const service = await serviceOver(`esdb://127.0.0.1:${leader.port},127.0.0.1:${follower.port}?tls=false`);
    await ready(service);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    await leader.stop();
    elect(undefined);
    while (follower.calls.read < 3) {
      expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
      await pause(100);
    }
    expect(service.messages()).not.toContain('rebuilding view');
  });
});
