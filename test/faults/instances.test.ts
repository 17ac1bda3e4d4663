import { expect, test } from 'vitest';
import { twoInstances } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';
import { startFakeServer } from '../support/stores.ts';

test('a list with Log-Position is late or 503 while all subscriptions are silent, but never older', async () => {
  const server = await startFakeServer();
  const [here, there] = await twoInstances(server.url);
  server.muteSubscriptions();
  const created = await here.as('alice').create(1, { name: 'Fern' });
  expect(created.status).toBe(200);
  const upTo = { 'log-position': created.headers.get('log-position') ?? '' };
  for (const { as } of [here, there]) {
    let response = await as('alice').get('', upTo);
    while (response.status !== 200) {
      await refusedWith(50302, response);
      response = await as('alice').get('', upTo);
    }
    expect(await response.json()).toEqual([{ name: 'Fern' }]);
  }
});
