import { expect, test } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import { twoInstances } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';

test('a list up to a Log-Position comes late or is refused while all subscriptions are silent, and is never an older one', async () => {
  const server = await startDouble();
  const [here, there] = await twoInstances(server.url);
  server.muteSubscriptions();
  const created = await here.as('alice').create(1, { name: 'Fern' });
  expect(created.status).toBe(200);
  const upTo = { 'log-position': created.headers.get('log-position') ?? '' };
  for (const { as } of [here, there]) {
    let answer = await as('alice').get('', upTo);
    while (answer.status !== 200) {
      await refusedWith(50302, answer);
      answer = await as('alice').get('', upTo);
    }
    expect(await answer.json()).toEqual([{ name: 'Fern' }]);
  }
});
