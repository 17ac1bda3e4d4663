import { open } from '@event-sourced/testing/eventStoreDbStore';
import { refusedWith } from '@event-sourced/testing/refusal';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, test } from 'vitest';
import { START } from '../../packages/event-log/src/eventStore.ts';
import type { EventToWrite } from '../../packages/event-store-db/src/testing/server.ts';
import { VIEWS } from '../../src/views.ts';
import { runCli } from '../support/cli.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { ready, untilAvailable } from '../support/instances.ts';

const INFO = 30;
const FATAL = 60;

const fern = { type: 'PlantCreated', data: { id: '1', user: 'alice', name: 'Fern' } };
const oak = { type: 'PlantCreated', data: { id: '1', user: 'bob', name: 'Oak' } };
const notJson = { contentType: 'application/octet-stream', data: Buffer.from([0xff, 0, 0x7b]) };

/** What the server stores and returns for an event with properties, whose data may have any format. */
const withProperties = (format: string, event: EventToWrite): EventToWrite => ({
  type: 'PlantPruned',
  metadata: { '$schema.name': 'plants.Pruned', '$schema.format': format, by: 'carol', count: 3, share: 0.5 },
  ...event,
});

/** What programs write to KurrentDB 25.1 and later only: streams and events. */
const OF_KURRENTDB: [string, [stream: string, event: EventToWrite][]][] = [
  [
    'properties',
    [
      ['plant-alice/7', withProperties('Json', { data: { id: '7' } })],
      ['other-1', withProperties('Json', { data: { id: '7' } })],
    ],
  ],
  [
    'formats that are not JSON',
    ['Protobuf', 'Avro', 'Bytes'].flatMap((format): [string, EventToWrite][] => [
      [`plant-alice/${format}`, withProperties(format, notJson)],
      ['other-1', withProperties(format, notJson)],
    ]),
  ],
  [
    'appends to several streams',
    [
      ['plant-alice/8', { type: 'PlantPruned' }],
      ['other-1', { type: 'PlantPruned' }],
      ['plant-bob/8', { type: 'PlantPruned' }],
      ['plant-alice/8', { type: 'PlantPruned' }],
    ],
  ],
  [
    'streams of secondary indexes',
    [
      ['$idx-ce-plant', { type: '$>', data: '0@plant-bob/1' }],
      ['$idx-et-PlantCreated', fern],
      ['$idx-all', fern],
    ],
  ],
];

describe('a log with other writers', () => {
  test('is filtered by the server: a page has events of plants only', async () => {
    const server = await startFakeServer();
    server.write('plant-alice/1', fern);
    for (let i = 0; i < 300; i++) server.write('other-1', { type: 'Other' });
    const last = server.write('plant-bob/1', oak);
    server.write('other-1');
    const { store } = await open(server.url);
    const { sent } = server.calls;
    const page = await store.readAll({ after: START, limit: 100 });
    expect(page.events.map(({ stream }) => stream)).toEqual(['plant-alice/1', 'plant-bob/1']);
    expect(page).toMatchObject({ position: last.position, isEnd: true });
    const ofBob = await store.readAll({ after: START, limit: 100, prefix: 'plant-bob/' });
    expect(ofBob.events.map(({ stream }) => stream)).toEqual(['plant-bob/1']);
    expect(server.calls.sent - sent).toBe(3);
  });

  test('may have events that do not create plants, or create them again', async () => {
    const ignored: [string, EventToWrite][] = [
      ['plantation-1', fern],
      ['plant-alice/first', fern],
      ['plant-alice/8', { type: '$>', data: '0@plant-bob/1' }],
      ['plant-alice/9', { type: '$>', data: '7@plant-nobody/1' }],
      ['plant-alice/10', { type: 'PlantPruned', data: fern.data }],
      ['plant-alice/11', { type: 'PlantPruned', ...notJson }],
      ['plant-alice/12', { type: 'PlantPruned', data: Buffer.from('{"id":') }],
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

  test.each(OF_KURRENTDB)(
    'may have %s: in a stream of a plant each event is an entry',
    async (_, written) => {
      const server = await startFakeServer();
      for (const [stream, event] of written) server.write(stream, event);
      const service = await serviceOver(server.url, { MERKLE_TREE: 'on' });
      await ready(service);
      for (const [stream, event] of written) server.write(stream, event); // also as live events
      expect((await service.bob.create(1, { name: 'Oak' })).status).toBe(200);
      expect((await untilAvailable(() => service.bob.request('/proofs/plants?id=1'))).status).toBe(200);
      const checkpoint = await (await service.as('carol', 'audit').request('/checkpoint')).text();
      const entries = written.filter(([stream]) => stream.startsWith('plant-')).length;
      expect(Number(checkpoint.split('\n')[1])).toBe(2 * entries + 1);
      expect(await (await untilAvailable(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
      expect(await (await untilAvailable(service.alice.get)).json()).toEqual([]);
      expect(service.log().filter(({ level }) => level >= FATAL)).toEqual([]);
    },
  );

  test.each(['softDelete', 'truncate', 'maxAge', 'tombstone'] as const)(
    'may lose a stream by %s: its plant stays listed, and is 50002 otherwise',
    async (how) => {
      const server = await startFakeServer();
      const service = await serviceOver(server.url, { MERKLE_TREE: 'on' });
      await ready(service);
      for (const user of [service.alice, service.bob]) await user.create(1, { name: 'Fern' });
      expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
      server.log.delete('plant-alice/1', how);
      const events = server.log.all.length;
      const earlier = service.log().length;
      const receipt = (user: typeof service.alice) => user.request('/proofs/plants?id=1');
      await refusedWith(50002, await receipt(service.alice));
      for (const name of ['Fern', 'Fern', 'Moss'])
        await refusedWith(50002, await service.alice.create(1, { name }));
      await refusedWith(50002, await receipt(service.alice));
      // The server continues a stream that was deleted softly, with one event at most.
      const added = server.log.all.slice(events).map(({ stream, revision }) => [stream, revision]);
      expect(added).toEqual(how === 'softDelete' ? [['plant-alice/1', 1n]] : []);
      expect((await service.bob.create(1, { name: 'Fern' })).status).toBe(200);
      expect((await service.bob.create(2, { name: 'Oak' })).status).toBe(200);
      expect(await (await untilAvailable(service.bob.get)).json()).toEqual([
        { name: 'Fern' },
        { name: 'Oak' },
      ]);
      expect((await untilAvailable(() => receipt(service.bob))).status).toBe(200);
      expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
      await refusedWith(40402, await service.alice.request('/proofs/plants?id=2'));
      const failed = service
        .log()
        .slice(earlier)
        .filter(({ msg, err }) => msg === 'request failed' && err);
      const reason = expect.stringContaining('the first event of plant-alice/1 was deleted');
      expect(failed.map(({ err }) => err.message)).toEqual(Array(5).fill(reason));
    },
  );

  test('that continues a deleted stream is a problem that verify names', async () => {
    const server = await startFakeServer();
    const service = await serviceOver(server.url);
    await service.alice.create(1, { name: 'Fern' });
    server.log.delete('plant-alice/1', 'softDelete');
    await refusedWith(50002, await service.alice.create(1, { name: 'Fern' }));
    const env = { EVENTSTOREDB_URL: server.url, DATA_DIR: service.dir };
    const { code, stdout } = await runCli(['verify'], env);
    expect(code).toBe(1);
    expect(stdout).toContain('it is a PlantCreated at revision 1 of its stream');
  });

  test('are skipped by the server: a restart continues after the last event of its own', async () => {
    const server = await startFakeServer();
    const first = await serviceOver(server.url);
    await ready(first);
    await first.alice.create(1, { name: 'Fern' });
    expect(await (await untilAvailable(first.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    const own = server.log.all.at(-1)?.position;
    for (let i = 0; i < 1_000; i++) server.write('other-1', { type: 'Other' });
    const newest = await first.as('carol', 'audit').request('/events?order=descending&limit=1');
    expect(newest.headers.get('log-position')).toMatch(new RegExp(`\\.${own}$`));
    await first.close();
    const earlier = server.subscribedAfter.length;
    const again = await serviceOver(server.url, { DATA_DIR: first.dir });
    await ready(again);
    expect(await again.alice.list()).toEqual([{ name: 'Fern' }]);
    expect(server.subscribedAfter.slice(earlier)).toEqual([own]);
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

  test('halts the views on an event of a plant that cannot be read, and names it, while that lasts', async () => {
    const server = await startFakeServer();
    const env = { MERKLE_TREE: 'on', METRICS_PORT: '0', EVENTSTOREDB_TIMEOUT: '5' };
    const first = await serviceOver(server.url, env);
    await ready(first);
    await first.alice.create(1, { name: 'Fern' });
    await expect.poll(async () => (await first.alice.get()).status).toBe(200);
    const before = server.log.all.at(-1)?.position;
    const unread = server.write('plant-other', { isUnreadable: true });
    const place = RegExp(
      `the (last event|event after position ${before}) of the streams plant-… cannot be read: `,
    );
    const expectHalted = async ({ log, metricsUrl, readiness, alice }: typeof first): Promise<void> => {
      const halted = () => log().filter(({ msg }) => msg.startsWith('projection halted on an event that'));
      const views = () => halted().map(({ view }) => view);
      await expect.poll(() => views().toSorted()).toEqual(Object.keys(VIEWS).toSorted());
      for (const line of halted())
        expect(line).toMatchObject({ level: 50, reason: expect.stringMatching(place) });
      expect(await (await readiness()).json()).toMatchObject({ message: expect.stringMatching(place) });
      await refusedWith(50302, await alice.get());
      const metrics = await fetch(String(metricsUrl));
      expect(await metrics.text()).toMatch(/^plant_store_view_ready\{view="merkleTree"\} 0$/m);
    };
    await expectHalted(first);
    expect((await first.alice.create(2, { name: 'Moss' })).status).toBe(200);
    await first.close();
    const again = await serviceOver(server.url, { ...env, DATA_DIR: first.dir });
    await expectHalted(again);
    unread.isUnreadable = false;
    await ready(again);
    expect(await (await untilAvailable(again.alice.get)).json()).toEqual([
      { name: 'Fern' },
      { name: 'Moss' },
    ]);
  });
});
