import { describe, expect, test } from 'vitest';
import { FakeLog } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { untilSettled } from '../support/clock.ts';
import { created, listed, positionIn, serviceOver } from '../support/eventStoreDbService.ts';
import { ready, untilAvailable } from '../support/instances.ts';
import { refusedWith } from '../support/refusal.ts';
import { slowClock } from '../support/slowClock.ts';
import { startFakeServer } from '../support/stores.ts';

/** The time until a view is saved, in milliseconds. */
const SAVED = 1_000;
/** The longest delay between attempts to connect, in milliseconds. */
const LONGEST_DELAY_MS = 3_000;

const logIdIn = (response: Response): string => positionIn(response).split('.')[0] ?? '';

/** A log with the first events of another one. */
const backupOf = ({ all }: FakeLog, count: number): FakeLog => {
  const backup = new FakeLog();
  for (const event of all.slice(0, count)) backup.append(event.stream, event);
  return backup;
};

/**
 * A service whose server was replaced `after` milliseconds after its view had two plants of alice and one of
 * bob.
 */
async function replaced(by: (log: FakeLog) => FakeLog, after = 0) {
  const clock = slowClock();
  const server = await startFakeServer();
  const service = await serviceOver(server.url);
  await ready(service);
  await created(service.alice, 1, 'Fern');
  await created(service.bob, 1, 'Oak');
  const position = await created(service.alice, 2, 'Ivy');
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  clock.pass(after);
  await server.stop();
  const { log } = await startFakeServer({ port: server.port, log: by(server.log) });
  clock.pass(LONGEST_DELAY_MS);
  return { service, position, log };
}

const MOMENTS = [
  ['at once', 0],
  ['once the view is saved', SAVED],
] as const;

describe('a server that is replaced under a running service', () => {
  test.each(MOMENTS)('by an empty one, %s, rebuilds the view; old positions are 40005', async (_, after) => {
    const { service, position, log } = await replaced(() => new FakeLog(), after);
    const lists = { ofOld: new Set<string>(), ofNew: new Set<string>() };
    const list = async () => {
      const response = await service.alice.get();
      const text = await response.text();
      const isOfOld = logIdIn(response) === position.split('.')[0];
      if (response.status === 200) lists[isOfOld ? 'ofOld' : 'ofNew'].add(text);
      else await refusedWith(50302, new Response(text, response));
      return text;
    };
    await expect.poll(list, { interval: 5 }).toBe('[]');
    expect([...lists.ofOld].filter((list) => list !== '[{"name":"Fern"},{"name":"Ivy"}]')).toEqual([]);
    expect([...lists.ofNew]).toEqual(['[]']);
    const atOldPosition = { 'log-position': position };
    await refusedWith(40005, await untilAvailable(() => service.alice.get('', atOldPosition)));
    expect((await untilAvailable(() => service.alice.create(2, { name: 'Moss' }))).status).toBe(200);
    expect(log.all.map(({ type }) => type)).toEqual(['LogBegun', 'PlantCreated']);
    expect(await listed(service.alice)).toEqual([{ name: 'Moss' }]);
    expect(await listed(service.bob)).toEqual([]);
    await ready(service);
  });

  test('by an empty one does not affect reads of new plants at their Log-Position', async () => {
    const { service } = await replaced(() => new FakeLog());
    const response = await untilAvailable(() => service.alice.create(3, { name: 'Moss' }));
    expect(response.status).toBe(200);
    const position = positionIn(response);
    const statuses = new Set<number>();
    const list = async () => {
      const response = await service.alice.get('', { 'log-position': position });
      statuses.add(response.status);
      return response.json();
    };
    await expect.poll(list, { interval: 5 }).toEqual([{ name: 'Moss' }]);
    expect(statuses.difference(new Set([200, 503]))).toEqual(new Set());
  });

  test.each(MOMENTS)('by an older backup, %s, causes a rebuild of the view', async (_, after) => {
    const { service, position } = await replaced((log) => backupOf(log, 3), after); // its first event, Fern and Oak
    await expect.poll(() => listed(service.alice)).toEqual([{ name: 'Fern' }]);
    const [beyond] = await untilSettled(service.alice.get('', { 'log-position': position }));
    await refusedWith(50302, beyond);
    expect((await untilAvailable(() => service.bob.create(2, { name: 'Moss' }))).status).toBe(200);
    expect(await listed(service.bob)).toEqual([{ name: 'Oak' }, { name: 'Moss' }]);
    await ready(service);
  });
});
