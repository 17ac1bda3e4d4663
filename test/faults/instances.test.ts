import { expect, test } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../packages/event-log/src/views/waiting.ts';
import { untilSettled } from '../support/clock.ts';
import { twoInstances, untilAvailable } from '../support/instances.ts';
import { refusedWith } from '../support/refusal.ts';
import { slowClock } from '../support/slowClock.ts';
import { startFakeServer } from '../support/stores.ts';

test('a list with Log-Position is 503 while the instance is behind, and never an older list', async () => {
  slowClock();
  const first = await startFakeServer();
  const second = await startFakeServer({ log: first.log });
  const [here, there] = await twoInstances(first.url, second.url);
  const upTo = ({ headers }: Response) => ({ 'log-position': headers.get('log-position') ?? '' });
  const listed = async (position: Response) =>
    (await untilAvailable(() => there.as('alice').get('', upTo(position)))).json();
  const fern = await here.as('alice').create(1, { name: 'Fern' });
  expect(await listed(fern)).toEqual([{ name: 'Fern' }]);
  second.freeze();
  const ivy = await here.as('alice').create(2, { name: 'Ivy' });
  const [late, ms] = await untilSettled(there.as('alice').get('', upTo(ivy)));
  await refusedWith(50302, late);
  expect(late.headers.get('retry-after')).toBe('1');
  expect(ms).toBeGreaterThanOrEqual(REACHED_TIMEOUT_MS);
  expect(await (await there.as('alice').get('', upTo(fern))).json()).toEqual([{ name: 'Fern' }]);
  second.thaw();
  expect(await listed(ivy)).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
});

test('a write that the server has acknowledged, and not delivered, delays no list of another user', async () => {
  const server = await startFakeServer();
  const instances = await twoInstances(server.url);
  const [{ as }] = instances;
  server.muteSubscriptions();
  expect((await as('alice').create(1, { name: 'Fern' })).status).toBe(200);
  for (const instance of instances) {
    const list = await instance.as('bob').get();
    expect([list.status, list.headers.get('log-position')]).toEqual([200, '0']);
  }
  expect(await (await untilAvailable(() => as('alice').get())).json()).toEqual([{ name: 'Fern' }]);
});
