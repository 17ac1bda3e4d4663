import { describe, expect, test } from 'vitest';
import { serviceOver } from '../../../../test/support/eventStoreDbService.ts';
import { open } from '../../../../test/support/eventStoreDbStore.ts';
import { ready, untilAvailable } from '../../../../test/support/instances.ts';
import { refusedWith } from '../../../../test/support/refusal.ts';
import { startFakeServer } from '../../../../test/support/stores.ts';
import { START } from '../../src/eventStore.ts';
import type { EventToWrite } from '../../src/testing/fakeEventStoreDb/server.ts';

const END = 2n ** 63n;
const INFO = 30;
const FATAL = 60;

const fern = { type: 'PlantCreated', data: { id: '1', user: 'alice', name: 'Fern' } };
const oak = { type: 'PlantCreated', data: { id: '1', user: 'bob', name: 'Oak' } };
const notJson = { contentType: 'application/octet-stream', data: Buffer.from([0xff, 0, 0x7b]) };

describe('a log with other writers', () => {
  test('is read page by page, although most pages have no event of a plant', async () => {
    const server = await startFakeServer();
    server.write('plant-alice/1', fern);
    for (let i = 0; i < 300; i++) server.write('other-1', { type: 'Other' });
    server.write('plant-bob/1', oak);
    const { store } = await open(server.url);
    const streams: string[] = [];
    let position = START;
    for (let isEnd = false; !isEnd; ) {
      const reads = server.calls.read;
      const page = await store.readAll({ after: position, limit: 100 });
      expect(server.calls.read).toBe(reads + 1);
      ({ position, isEnd } = page);
      streams.push(...page.events.map(({ stream }) => stream));
    }
    expect(streams).toEqual(['plant-alice/1', 'plant-bob/1']);
    expect(position).toBe(server.log.all.at(-1)?.position);
  });

  test('may have events that do not create plants, or create them again', async () => {
    const ignored: [string, EventToWrite][] = [
      ['plantation-1', fern],
      ['plant-alice/first', fern],
      ['plant-alice/8', { type: '$>', data: '0@plant-bob/1' }],
      ['plant-alice/9', { type: '$>', data: '7@plant-nobody/1' }],
      ['plant-alice/10', { type: 'PlantWatered', data: fern.data }],
      ['plant-alice/11', { type: 'PlantPhotographed', ...notJson }],
      ['plant-alice/12', { type: 'PlantPhotographed', data: Buffer.from('{"id":') }],
      ['plant-alice/13', { type: '$streamDeleted', data: {} }],
      ['$$plant-bob/1', { type: '$metadata', data: { $tb: 9e15 } }],
      ['plant-bob/1', { type: 'PlantCreated', data: { id: '1' } }],
      ['plant-bob/1', { type: 'PlantCreated', ...notJson }],
    ];
    const server = await startFakeServer();
    server.write('plant-bob/1', oak);
    for (const [stream, event] of ignored) server.write(stream, event);
    const service = await serviceOver(server.url);
    await ready(service);
    expect(await service.alice.list()).toEqual([]);
    for (const [stream, event] of ignored) server.write(stream, event); // also as live events
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    expect(await (await untilAvailable(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
    expect(await service.isReady()).toBe(true);
    const isSlow = (msg: string) => /resubscribing$|^event store unavailable/.test(msg); // on a slow machine
    expect(service.log().filter(({ level, msg }) => level > INFO && !isSlow(msg))).toEqual([]);
  });

  test.each(['softDelete', 'truncate', 'tombstone'] as const)(
    'may lose a stream by %s: its plant stays listed, and is 50002 otherwise; nothing is appended',
    async (how) => {
      const server = await startFakeServer();
      const service = await serviceOver(server.url, { MERKLE_TREE: 'on' });
      await ready(service);
      const carol = service.as('carol');
      for (const user of [service.alice, service.bob, carol]) await user.create(1, { name: 'Fern' });
      expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
      for (const user of ['alice', 'carol']) server.log.delete(`plant-${user}/1`, how);
      // The service learns of deletions in their order: when it knows the last one, it knows the first one.
      await expect.poll(async () => (await carol.create(1, { name: 'Fern' })).status).toBe(500);
      const events = server.log.all.length;
      const earlier = service.log().length;
      const receipt = (user: typeof service.alice) => user.request('/proofs/plants?id=1');
      for (const name of ['Fern', 'Fern', 'Moss'])
        await refusedWith(50002, await service.alice.create(1, { name }));
      await refusedWith(50002, await receipt(service.alice));
      expect(server.log.all).toHaveLength(events);
      expect((await service.bob.create(1, { name: 'Fern' })).status).toBe(200);
      expect((await untilAvailable(() => receipt(service.bob))).status).toBe(200);
      expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
      await refusedWith(40402, await service.alice.request('/proofs/plants?id=2'));
      const failed = service
        .log()
        .slice(earlier)
        .filter(({ msg }) => msg === 'request failed');
      const reason = expect.stringContaining('the first event of plant-alice/1 was deleted');
      expect(failed.map(({ err }) => err.message)).toEqual(Array(4).fill(reason));
    },
  );

  test('is read once: a list, a checkpoint and a restart continue after the events of other writers', async () => {
    const server = await startFakeServer();
    const first = await serviceOver(server.url, { MERKLE_TREE: 'on' });
    await ready(first);
    for (const user of [first.alice, first.bob]) await user.create(1, { name: 'Fern' });
    const own = server.log.all.at(-1)?.position;
    for (let i = 0; i < 20_000; i++) server.write('other-1', { type: 'Other' });
    const end = server.log.all.at(-1)?.position ?? START;
    const auditor = first.as('carol', 'audit');
    const newest = await auditor.request('/events?order=descending&limit=1');
    const atEnd = newest.headers.get('log-position') ?? '';
    expect(atEnd).toMatch(new RegExp(`\\.${end}$`));
    const listed = await untilAvailable(() => first.alice.get('', { 'log-position': atEnd }));
    expect(await listed.json()).toEqual([{ name: 'Fern' }]);
    const readsOfCheckpoint = async () => {
      const { read } = server.calls;
      return (await auditor.request('/checkpoint')).ok ? server.calls.read - read : Number.POSITIVE_INFINITY;
    };
    const readsOfThem = 20_000 / 500;
    // The first one after a second, until the thread of the tree has read them, too.
    await expect.poll(readsOfCheckpoint, { interval: 1_100, timeout: 60_000 }).toBeLessThan(readsOfThem / 2);
    await first.close();

    /** Where the views of another start subscribe. */
    async function subscribedByRestart(): Promise<bigint[]> {
      const earlier = server.subscribedAfter.length;
      const again = await serviceOver(server.url, { MERKLE_TREE: 'on', DATA_DIR: first.dir });
      await ready(again);
      const checkpoint = () => again.as('carol', 'audit').request('/checkpoint');
      expect(await (await untilAvailable(checkpoint)).text()).toContain('\n2\n');
      expect(await again.bob.list()).toEqual([{ name: 'Fern' }]);
      await again.close();
      return server.subscribedAfter.slice(earlier).filter((position) => position > START);
    }
    const ofViews = await subscribedByRestart();
    expect(ofViews.length).toBeGreaterThanOrEqual(2);
    for (const position of ofViews)
      expect(position).toBeGreaterThan(server.log.all.at(-2_000)?.position ?? END);
    for (const event of server.log.all.slice(-2_000)) server.log.scavenge(event);
    for (const position of await subscribedByRestart()) expect(position).toBe(own);
  });

  test('halts the projection on a PlantCreated that is not JSON, until SKIP_EVENTS has it', async () => {
    const server = await startFakeServer();
    const service = await serviceOver(server.url);
    await ready(service);
    await service.alice.create(1, { name: 'Fern' });
    const { id } = server.write('plant-bob/3', { type: 'PlantCreated', ...notJson });
    const fatal = () => service.log().find(({ level }) => level === FATAL);
    await expect.poll(fatal).toMatchObject({ msg: expect.stringContaining(`SKIP_EVENTS=${id}`) });
    const readiness = await service.readiness();
    expect(readiness.status).toBe(503);
    expect(await readiness.json()).toMatchObject({ message: expect.stringContaining(id) });
    for (const user of [service.alice, service.bob]) await refusedWith(50302, await user.get());
    expect((await service.alice.create(2, { name: 'Moss' })).status).toBe(200);
    await service.close();
    const again = await serviceOver(server.url, { DATA_DIR: service.dir, SKIP_EVENTS: id });
    await ready(again);
    expect(await again.alice.list()).toEqual([{ name: 'Fern' }, { name: 'Moss' }]);
    expect(await again.bob.list()).toEqual([]);
    expect(again.log().map(({ msg }) => msg)).toContain('event skipped');
  });
});
