import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { describe, expect, test } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../projections/follow.ts';
import { FIRST_ANSWER_TIMEOUT_MS } from '../../src/eventStore/eventStoreDbConnection.ts';
import { startDouble } from '../copy/logs.ts';
import { untilSettled } from '../support/clock.ts';
import type { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { positionIn, serviceOver, startDoubleLater } from '../support/eventStoreDbService.ts';
import { answered, ready } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';
import { slowClock } from '../support/slowClock.ts';

/** No attempt to reach a server is put off for longer, in milliseconds. */
const LONGEST_DELAY_MS = 7_500;

describe('a server that is unavailable at the start', () => {
  test('is waited for: the service says so, refuses requests, and recovers by itself', async () => {
    const clock = slowClock();
    const server = await startDoubleLater();
    const service = await serviceOver(server.url);
    expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
    await expect.poll(service.messages).toContain('the log is away: the view waits for it');
    const readiness = await service.readiness();
    expect(readiness.status).toBe(503);
    expect(await readiness.json()).toEqual({
      error: 50302,
      message: expect.stringMatching(/^the log is away: .*ECONNREFUSED/),
    });

    const [list, listed] = await untilSettled(service.alice.get());
    expect(await refusedWith(50302, list)).toMatch(/try again/i);
    expect(listed).toBeGreaterThanOrEqual(REACHED_TIMEOUT_MS);
    const [creation] = await untilSettled(service.bob.create(1, { name: 'Oak' }));
    expect(await refusedWith(50301, creation)).toMatch(/repeating the request is safe/);
    for (const answer of [list, creation]) expect(answer.headers.get('retry-after')).toBe('1');

    const waiting = answered(() => service.alice.get());
    await server.restart();
    clock.pass(LONGEST_DELAY_MS);
    await ready(service);
    expect(await (await waiting).json()).toEqual([]);
    expect((await answered(() => service.bob.create(1, { name: 'Oak' }))).status).toBe(200);
    expect((await answered(() => service.alice.create(1, { name: 'Fern' }))).status).toBe(200);
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    expect(await (await answered(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
    expect(service.messages().filter((msg) => msg.startsWith('the log is'))).toEqual([
      'the log is away: the view waits for it',
      'the log is back',
    ]);
  });

  test('is waited for in the same way when it does not answer', async () => {
    const clock = slowClock();
    const server = await startDouble();
    server.freeze();
    const starting = serviceOver(server.url);
    clock.pass(FIRST_ANSWER_TIMEOUT_MS);
    const service = await starting;
    const [creation] = await untilSettled(service.bob.create(1, { name: 'Oak' }));
    await refusedWith(50301, creation);
    expect(await service.isReady()).toBe(false);
    server.thaw();
    clock.pass(LONGEST_DELAY_MS);
    await ready(service);
    expect((await answered(() => service.bob.create(1, { name: 'Oak' }))).status).toBe(200);
    expect(await (await answered(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
  });
});

describe('a server that becomes unavailable later', () => {
  test('does not keep the lists from being read', async () => {
    const clock = slowClock();
    const server = await startDouble();
    const service = await serviceOver(server.url);
    await ready(service);
    const position = positionIn(await service.alice.create(1, { name: 'Fern' }));
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    await server.stop();
    const [creation] = await untilSettled(service.alice.create(2, { name: 'Ivy' }));
    await refusedWith(50301, creation);
    for (const headers of [{}, { 'log-position': position }]) {
      const answer = await service.alice.get('', headers);
      expect(await answer.json()).toEqual([{ name: 'Fern' }]);
    }
    expect(await service.bob.list()).toEqual([]);
    expect(await service.isReady()).toBe(true);
    await server.restart();
    clock.pass(LONGEST_DELAY_MS);
    expect((await answered(() => service.alice.create(2, { name: 'Ivy' }))).status).toBe(200);
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  });

  test('keeps back a list that would lack what a client knows of', async () => {
    const clock = slowClock();
    const server = await startDouble();
    const service = await serviceOver(server.url);
    await ready(service);
    const before = positionIn(await service.alice.create(1, { name: 'Fern' }));
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    server.holdAfter(server.log.all.length);
    expect((await service.alice.create(2, { name: 'Ivy' })).status).toBe(200);
    await server.stop();
    const [mark, place] = before.split('.');
    const named = { 'log-position': `${mark}.${Number(place) + 1_000_000}` };
    const [answers] = await untilSettled(
      Promise.all([
        service.alice.get(),
        service.bob.get(),
        service.alice.get('', { 'log-position': before }),
        service.alice.get('', named),
      ]),
    );
    for (const answer of answers) await refusedWith(50302, answer);
    server.holdAfter(Number.POSITIVE_INFINITY);
    await server.restart();
    clock.pass(LONGEST_DELAY_MS);
    expect((await answered(() => service.bob.create(1, { name: 'Oak' }))).status).toBe(200);
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  });
});

describe('a view is not rebuilt', () => {
  test('where the reads of a server fail for reasons of its own', async () => {
    const server = await startDouble();
    const service = await serviceOver(server.url);
    await ready(service);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    server.dropSubscriptions('end');
    server.failReads(2, status.UNKNOWN);
    server.write('plant-alice/2', {
      type: 'PlantCreated',
      data: { id: '2', user: 'alice', name: 'Ivy' },
    });
    const list = async () => (await answered(service.alice.get)).json();
    await expect.poll(list).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
    expect(service.messages()).not.toContain('the view is built anew');
  });

  test('where the leader dies and the other node lags, and no list gets shorter', async () => {
    const [leader, follower] = [await startDouble(), await startDouble()];
    const nodes = [leader, follower];
    const begun = { id: randomUUID() };
    for (const node of nodes) node.write('begun', begun);
    const elect = (elected: EventStoreDbDouble | undefined) => {
      const state = (node: EventStoreDbDouble) =>
        node === elected ? ('leader' as const) : ('follower' as const);
      const members = nodes.map((node) => ({ port: node.port, state: state(node) }));
      for (const node of nodes) node.setMembers(members);
    };
    elect(leader);
    const service = await serviceOver(`esdb://127.0.0.1:${leader.port},127.0.0.1:${follower.port}?tls=false`);
    await ready(service);
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    await leader.stop();
    elect(undefined);
    while (follower.calls.read < 3) {
      expect(await service.alice.list()).toEqual([{ name: 'Fern' }]);
      await pause(100);
    }
    expect(service.messages()).not.toContain('the view is built anew');
  });
});
