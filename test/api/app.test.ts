import { expect, test } from 'vitest';
import { startService } from '../support/service.ts';

test('a created plant is listed to its owner only', async () => {
  const { as } = await startService();
  const alice = as('alice');
  const bob = as('bob');
  await alice.create(1, { name: 'Fern', tag: 'indoor' });
  await bob.create(1, { name: 'Oak' });
  expect(await alice.list()).toEqual([{ name: 'Fern', tag: 'indoor' }]);
  expect(await bob.list()).toEqual([{ name: 'Oak' }]);
});
