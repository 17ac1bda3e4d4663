import { randomUUID } from 'node:crypto';
import { describe, expect, inject, test } from 'vitest';
import { ready, untilAvailable } from '../support/instances.ts';
import { MAIN, NODE, run } from '../support/process.ts';
import { type Plant, startService } from '../support/service.ts';

const server = inject('eventStoreDb');
const EVENTSTOREDB_URL = server?.url ?? '';
const fern = { name: 'Fern', tag: 'indoor' };

/** Two new users: the tests share one log. */
function newUsers() {
  const run = randomUUID();
  return { alice: `alice of ${run}`, bob: `bob of ${run}` };
}

async function startReady(env: Record<string, string>) {
  const service = await startService(env);
  await ready(service);
  return service;
}

/** The plants of a user, as soon as the view has caught up with the user's writes. */
async function listOf(as: { get: () => Promise<Response> }): Promise<Plant[]> {
  return (await untilAvailable(() => as.get())).json() as Promise<Plant[]>;
}

const positionIn = ({ headers }: Response): string => headers.get('log-position') ?? '';

describe.skipIf(!server)('an auditor of the log in a container', () => {
  test('reads the same events over HTTP and by npm run replay, without problems', async () => {
    const { dir, as } = await startReady({ EVENTSTOREDB_URL });
    const { alice, bob } = newUsers();
    for (let id = 1; id <= 5; id++) {
      await as(alice).create(id, { name: `Fern ${id}` });
      await as(bob).create(id, { name: `Oak ${id}` });
    }
    await listOf(as(alice));
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
  });
});

describe.skipIf(!server)('a restarted instance', () => {
  test('resumes from its view, and includes plants created meanwhile on another instance', async () => {
    const { alice, bob } = newUsers();
    const before = await startReady({ EVENTSTOREDB_URL });
    const other = await startReady({ EVENTSTOREDB_URL });
    await before.as(bob).create(1, { name: 'Oak' });
    const last = await before.as(alice).create(1, fern);
    await listOf(before.as(alice));
    await before.close();

    const meanwhile = await other.as(alice).create(2, { name: 'Moss' });
    const again = await startReady({ EVENTSTOREDB_URL, DATA_DIR: before.dir });
    const upTo = { 'log-position': positionIn(meanwhile) };
    const response = await untilAvailable(() => again.as(alice).get('', upTo));
    expect(await response.json()).toEqual([fern, { name: 'Moss' }]);
    expect(await listOf(again.as(bob))).toEqual([{ name: 'Oak' }]);
    const caughtUp = again.log().find(({ msg }) => msg === 'view caught up');
    expect(caughtUp).toMatchObject({ from: positionIn(last).split('.')[1] });
  });
});
