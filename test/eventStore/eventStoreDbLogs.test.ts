import { describe, expect, test } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import type { EventToWrite } from '../support/eventStoreDbDouble.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { answered, ready } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';

const INFO = 30;
const FATAL = 60;

const fern = { type: 'PlantCreated', data: { id: '1', user: 'alice', name: 'Fern' } };
const notJson = { contentType: 'application/octet-stream', data: Buffer.from([0xff, 0, 0x7b]) };

describe('a log that others write to', () => {
  test('may hold events that are no plants, or not for the first time', async () => {
    const oak = { type: 'PlantCreated', data: { id: '1', user: 'bob', name: 'Oak' } };
    const strangers: [string, EventToWrite][] = [
      ['plantation-1', fern],
      ['plant-', fern],
      ['plant-alice', fern],
      ['plant-alice/', fern],
      ['plant-alice/first', fern],
      ['plant-alice/9223372036854775808', fern],
      ['plant-alice/01', fern],
      ['plant-/1', fern],
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
    const server = await startDouble();
    server.write('plant-bob/1', oak);
    for (const [stream, event] of strangers) server.write(stream, event);
    const service = await serviceOver(server.url);
    await ready(service);
    expect(await service.alice.list()).toEqual([]);
    for (const [stream, event] of strangers) server.write(stream, event); // and as they come
    expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    expect(await (await answered(service.bob.get)).json()).toEqual([{ name: 'Oak' }]);
    expect(await service.isReady()).toBe(true);
    const isResubscribing = (msg: string) => msg.endsWith('subscribing again'); // on a machine that is very slow
    expect(service.log().filter(({ level, msg }) => level > INFO && !isResubscribing(msg))).toEqual([]);
  });

  test.each<[string, EventToWrite]>([
    ['without a name', { type: 'PlantCreated', data: { id: '3', user: 'bob' } }],
    ['that is no JSON', { type: 'PlantCreated', ...notJson }],
  ])('halts the view by a PlantCreated %s, until SKIP_EVENTS names it', async (_, event) => {
    const server = await startDouble();
    const service = await serviceOver(server.url);
    await ready(service);
    await service.alice.create(1, { name: 'Fern' });
    const { id } = server.write('plant-bob/3', event);
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
  });
});
