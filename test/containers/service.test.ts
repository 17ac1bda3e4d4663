import { randomUUID } from 'node:crypto';
import { expect, inject, test } from 'vitest';
import { created, listed, serviceOver } from '../support/eventStoreDbService.ts';
import { ready } from '../support/instances.ts';
import { MAIN, NODE, run } from '../support/process.ts';

const server = inject('eventStoreDb');
const EVENTSTOREDB_URL = server?.url ?? '';

/** Two new users: the tests share one log. */
function newUsers() {
  const run = randomUUID();
  return { alice: `alice of ${run}`, bob: `bob of ${run}` };
}

async function startReady(env: Record<string, string> = {}) {
  const service = await serviceOver(EVENTSTOREDB_URL, env);
  await ready(service);
  return service;
}

test.skipIf(!server)(
  'an auditor of the log in a container reads the same events over HTTP and by npm run replay, without problems',
  async () => {
    const { dir, as } = await startReady();
    const { alice, bob } = newUsers();
    for (let id = 1; id <= 5; id++) {
      await as(alice).create(id, { name: `Fern ${id}` });
      await as(bob).create(id, { name: `Oak ${id}` });
    }
    await listed(as(alice));
    const env = { EVENTSTOREDB_URL, DATA_DIR: dir };
    const command = (...args: string[]) => run({ env, command: [NODE, MAIN, ...args] });
    const carol = as('carol', 'audit');
    const text = await (await carol.request(`/events?user=${encodeURIComponent(alice)}`)).text();
    expect(text.split('\n').filter((line) => line.includes(alice))).toHaveLength(5);
    expect(await command('replay', '--user', alice)).toMatchObject({ code: 0, stdout: text });
    const { position } = JSON.parse(text.split('\n')[1] ?? '');
    const oak = { stdout: '[{"name":"Oak 1"}]\n' };
    expect(await command('plants', '--user', bob, '--at', position)).toMatchObject(oak);
    expect(await command('verify', '--json')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"problemCount":0'),
    });
  },
);

test.skipIf(!server)(
  'a restarted instance resumes from its view, and includes plants created meanwhile on another instance',
  async () => {
    const { alice, bob } = newUsers();
    const before = await startReady();
    const other = await startReady();
    await created(before.as(bob), 1, 'Oak');
    const last = await created(before.as(alice), 1, 'Fern');
    await listed(before.as(alice));
    await before.close();

    const meanwhile = await created(other.as(alice), 2, 'Moss');
    const again = await startReady({ DATA_DIR: before.dir });
    const { get } = again.as(alice);
    const upToMoss = () => get('', { 'log-position': meanwhile });
    expect(await listed({ get: upToMoss })).toEqual([{ name: 'Fern' }, { name: 'Moss' }]);
    expect(await listed(again.as(bob))).toEqual([{ name: 'Oak' }]);
    const caughtUp = again.log().find(({ msg }) => msg === 'view caught up');
    expect(caughtUp).toMatchObject({ from: last.split('.')[1] });
  },
);
