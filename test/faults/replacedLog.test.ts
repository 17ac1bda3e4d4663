import { untilSettled } from '@event-sourced/testing/clock';
import { plantOf } from '@event-sourced/testing/logs';
import { refusedWith } from '@event-sourced/testing/refusal';
import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, test } from 'vitest';
import { FakeLog } from '../../packages/event-store-db/src/testing/server.ts';
import { created, listed, positionIn, serviceOver } from '../support/eventStoreDbService.ts';
import { ready, untilAvailable } from '../support/instances.ts';

/** The longest delay between attempts to connect, in milliseconds. */
const LONGEST_DELAY_MS = 3_000;

const logIdIn = (response: Response): string => positionIn(response).split('.')[0] ?? '';

/** A log with the first events of another log. */
const backupOf = ({ all }: FakeLog, count: number): FakeLog => {
  const backup = new FakeLog();
  for (const event of all.slice(0, count)) backup.append(event.stream, event);
  return backup;
};

/** Another log, in which alice has a palm. */
function logOfPalm(): FakeLog {
  const { stream, ...palm } = plantOf('alice', 9, 'Palm');
  const log = new FakeLog();
  log.append(stream, { ...palm, type: 'PlantCreated', metadata: {} });
  return log;
}

/** A service whose server was replaced after its view had two plants of alice and one of bob. */
async function replaced(by: (log: FakeLog) => FakeLog) {
  const clock = slowClock();
  const server = await startFakeServer();
  const service = await serviceOver(server.url);
  await ready(service);
  await created(service.alice, 1, 'Fern');
  await created(service.bob, 1, 'Oak');
  const position = await created(service.alice, 2, 'Ivy');
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  await server.stop();
  const other = await startFakeServer({ port: server.port, log: by(server.log) });
  clock.pass(LONGEST_DELAY_MS);
  return { service, position, server, other };
}

describe('a server that is replaced under a running service', () => {
  test('by another one rebuilds the view; old positions are 40005', async () => {
    const { service, position } = await replaced(logOfPalm);
    const lists = { ofOld: new Set<string>(), ofNew: new Set<string>() };
    const list = async () => {
      const response = await service.alice.get();
      const text = await response.text();
      const isOfOld = logIdIn(response) === position.split('.')[0];
      if (response.status === 200) lists[isOfOld ? 'ofOld' : 'ofNew'].add(text);
      else await refusedWith(50302, new Response(text, response));
      return text;
    };
    await expect.poll(list, { interval: 5 }).toBe('[{"name":"Palm"}]');
    expect([...lists.ofOld].filter((list) => list !== '[{"name":"Fern"},{"name":"Ivy"}]')).toEqual([]);
    expect([...lists.ofNew]).toEqual(['[{"name":"Palm"}]']);
    const atOldPosition = { 'log-position': position };
    await refusedWith(40005, await untilAvailable(() => service.alice.get('', atOldPosition)));
    expect((await untilAvailable(() => service.alice.create(2, { name: 'Moss' }))).status).toBe(200);
    expect(await listed(service.alice)).toEqual([{ name: 'Palm' }, { name: 'Moss' }]);
    expect(await listed(service.bob)).toEqual([]);
    await ready(service);
  });

  test('by an empty one gets no event, and the view is read until the log is there again', async () => {
    const { service, server, other } = await replaced(() => new FakeLog());
    const waits = () => service.log().some(({ reason }) => `${reason}`.includes('it has no events'));
    await expect.poll(waits).toBe(true);
    await refusedWith(50301, await service.alice.create(3, { name: 'Moss' }));
    expect(other.log.all).toEqual([]);
    expect(await listed(service.alice)).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
    await other.stop();
    await startFakeServer({ port: server.port, log: server.log });
    expect((await untilAvailable(() => service.alice.create(3, { name: 'Moss' }))).status).toBe(200);
    expect(await listed(service.alice)).toHaveLength(3);
  });

  test('by an older backup causes a rebuild of the view', async () => {
    const { service, position } = await replaced((log) => backupOf(log, 3)); // its first event, Fern and Oak
    await expect.poll(() => listed(service.alice)).toEqual([{ name: 'Fern' }]);
    const [beyond] = await untilSettled(service.alice.get('', { 'log-position': position }));
    await refusedWith(50302, beyond);
    expect((await untilAvailable(() => service.bob.create(2, { name: 'Moss' }))).status).toBe(200);
    expect(await listed(service.bob)).toEqual([{ name: 'Oak' }, { name: 'Moss' }]);
    await ready(service);
  });
});
