import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { refusedWith } from '@event-sourced/testing/refusal';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { damageFirstRows, damagePage } from '../support/damage.ts';
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

test('damage that the check after a kill finds ends POST and readiness; the plants are still listed', async () => {
  const [dir, copy] = [logWith({ events: 2_000 }), tempDir()];
  const first = await startService({ DATA_DIR: dir });
  await ready(first);
  await first.close();
  const second = await startService({ DATA_DIR: dir });
  expect((await second.as('carol').create(1, { name: 'Fern' })).status).toBe(200);
  cpSync(dir, copy, { recursive: true }); // as a kill leaves it
  damageFirstRows(join(copy, 'log.db'), 'events');

  const { url, as, log } = await startService({ DATA_DIR: copy });
  const refused = () => log().filter(({ msg }) => msg === 'log damaged; no more appends');
  await expect.poll(refused).toHaveLength(1);
  const { reason } = refused()[0];
  expect(await refusedWith(50301, await fetch(`${url}/health/ready`))).toBe(reason);
  for (const user of ['alice', 'bob'])
    await refusedWith(50301, await as(user).create(9_999, { name: 'Moss' }));
  expect(await as('alice').list()).toHaveLength(1_000);
  expect(await as('carol').list()).toEqual([{ name: 'Fern' }]);
  expect(log().map(({ msg }) => msg)).toContain('checking the log after an unclean stop');
});
