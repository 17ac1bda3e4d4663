import { join } from 'node:path';
import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { damagePage } from '../support/damage.ts';
import { ready } from '../support/instances.ts';
import { startService } from '../support/service.ts';

test('a damaged log ends POST and readiness with the reason; the plants are still listed', async () => {
  const first = await startService();
  await first.as('alice').create(1, { name: 'Fern' });
  await ready(first);
  await first.close();
  damagePage(join(first.dir, 'log.db'), 'sqlite_autoindex_events_2');

  const { url, as, log } = await startService({ DATA_DIR: first.dir });
  await ready({ url });
  const reason = 'the log is damaged: database disk image is malformed';
  for (const user of ['alice', 'bob']) await refusedWith(50301, await as(user).create(2, { name: 'Moss' }));
  expect(await refusedWith(50301, await fetch(`${url}/health/ready`))).toBe(reason);
  expect((await fetch(`${url}/health/live`)).status).toBe(200);
  expect(await as('alice').list()).toEqual([{ name: 'Fern' }]);
  const lines = log().filter(({ msg }) => msg === 'log damaged; no more appends');
  expect(lines).toEqual([expect.objectContaining({ level: 50, reason })]);
});
