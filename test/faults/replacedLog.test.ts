import { describe, expect, test } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import { untilSettled } from '../support/clock.ts';
import { DoubleLog } from '../support/eventStoreDbDouble.ts';
import { positionIn, serviceOver } from '../support/eventStoreDbService.ts';
import { answered, ready } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';
import { slowClock } from '../support/slowClock.ts';

/** By then a view is saved, in milliseconds. */
const SAVED = 1_000;
/** No attempt to reach a server is put off for longer, in milliseconds. */
const LONGEST_DELAY_MS = 7_500;

const markIn = (answer: Response): string => positionIn(answer).split('.')[0] ?? '';

/** A log that has the first events of another one. */
const backupOf = ({ all }: DoubleLog, count: number): DoubleLog => {
  const backup = new DoubleLog();
  for (const event of all.slice(0, count)) backup.append(event.stream, event);
  return backup;
};

/** A service whose server has been replaced, some milliseconds after its view had two plants of alice and one of bob. */
async function replaced(by: (log: DoubleLog) => DoubleLog, after = 0) {
  const clock = slowClock();
  const server = await startDouble();
  const service = await serviceOver(server.url);
  await ready(service);
  await service.alice.create(1, { name: 'Fern' });
  await service.bob.create(1, { name: 'Oak' });
  const position = positionIn(await service.alice.create(2, { name: 'Ivy' }));
  expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  clock.pass(after);
  await server.stop();
  await startDouble({ port: server.port, log: by(server.log) });
  clock.pass(LONGEST_DELAY_MS);
  return { service, position };
}

describe('a server that is replaced behind the service', () => {
  test.each([
    ['at once', 0],
    ['once the view is saved', SAVED],
  ])(
    'by an empty one, %s, has the view rebuilt, and positions of the old one are refused',
    async (_, after) => {
      const { service, position } = await replaced(() => new DoubleLog(), after);
      const lists = { ofOld: new Set<string>(), ofNew: new Set<string>() };
      const list = async () => {
        const answer = await service.alice.get();
        const text = await answer.text();
        const isOfOld = markIn(answer) === position.split('.')[0];
        if (answer.status === 200) lists[isOfOld ? 'ofOld' : 'ofNew'].add(text);
        else await refusedWith(50302, new Response(text, answer));
        return text;
      };
      await expect.poll(list, { interval: 5 }).toBe('[]');
      expect([...lists.ofOld].filter((list) => list !== '[{"name":"Fern"},{"name":"Ivy"}]')).toEqual([]);
      expect([...lists.ofNew]).toEqual(['[]']);
      const named = { 'log-position': position };
      await refusedWith(40005, await answered(() => service.alice.get('', named)));
      expect((await answered(() => service.alice.create(2, { name: 'Moss' }))).status).toBe(200);
      expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Moss' }]);
      expect(await (await answered(service.bob.get)).json()).toEqual([]);
      await ready(service);
    },
  );

  test('by an empty one does not keep what is created at once from being found at its Log-Position', async () => {
    const { service } = await replaced(() => new DoubleLog());
    const created = await answered(() => service.alice.create(3, { name: 'Moss' }));
    expect(created.status).toBe(200);
    const statuses = new Set<number>();
    const list = async () => {
      const answer = await service.alice.get('', { 'log-position': positionIn(created) });
      statuses.add(answer.status);
      return answer.json();
    };
    await expect.poll(list, { interval: 5 }).toEqual([{ name: 'Moss' }]);
    expect(statuses.difference(new Set([200, 503]))).toEqual(new Set());
  });

  test.each([
    ['at once', 0],
    ['once the view is saved', SAVED],
  ])('by an older backup of it, %s, has the view rebuilt', async (_, after) => {
    const { service, position } = await replaced((log) => backupOf(log, 3), after); // its beginning, Fern and Oak
    await expect.poll(async () => (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
    const [beyond] = await untilSettled(service.alice.get('', { 'log-position': position }));
    await refusedWith(50302, beyond);
    expect((await answered(() => service.bob.create(2, { name: 'Moss' }))).status).toBe(200);
    expect(await (await answered(service.bob.get)).json()).toEqual([{ name: 'Oak' }, { name: 'Moss' }]);
    await ready(service);
  });
});
