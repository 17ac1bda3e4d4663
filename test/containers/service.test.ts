import { randomUUID } from 'node:crypto';
import { describe, expect, inject, test } from 'vitest';
import { ready, twoInstances, untilAvailable } from '../support/instances.ts';
import { MAIN, NODE, run } from '../support/process.ts';
import { refusedWith } from '../support/refusal.ts';
import { type Plant, startService } from '../support/service.ts';

const server = inject('eventStoreDb');
const EVENTSTOREDB_URL = server?.url ?? '';
const fern = { name: 'Fern', tag: 'indoor' };

/** Two new users: the tests share one log. */
function newUsers() {
  const run = randomUUID();
  return { alice: `alice of ${run}`, bob: `bob of ${run}` };
}

async function served() {
  const { as } = await startReady({ EVENTSTOREDB_URL });
  const { alice, bob } = newUsers();
  return { alice: as(alice), bob: as(bob) };
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

describe.skipIf(!server)('the service over EventStoreDB in a container', () => {
  test('lists the plants of a user, oldest first, whatever their ids', async () => {
    const { alice, bob } = await served();
    for (const id of [3, -1, 2]) {
      const name = `Fern ${id}`;
      const response = await alice.create(id, { name });
      expect([response.status, await response.json()]).toEqual([200, { name }]);
      await bob.create(id, { name: `Oak ${id}`, tag: '' });
    }
    expect(await listOf(alice)).toEqual([3, -1, 2].map((id) => ({ name: `Fern ${id}` })));
    expect(await listOf(bob)).toEqual([3, -1, 2].map((id) => ({ name: `Oak ${id}`, tag: '' })));
  });

  test('returns the same to repeated and concurrent requests, and rejects another plant with the ID', async () => {
    const { alice, bob } = await served();
    expect((await bob.create(7, { name: 'Oak' })).status).toBe(200);
    const responses = [
      ...(await Promise.all([alice.create(7, fern), alice.create(7, fern)])),
      await alice.create(7, fern),
    ];
    for (const response of responses) expect([response.status, await response.json()]).toEqual([200, fern]);
    const refused = await alice.create(7, { name: 'Fern' });
    await refusedWith(40003, refused);
    expect(new Set([...responses, refused].map(positionIn)).size).toBe(1);
    expect([await listOf(alice), await listOf(bob)]).toEqual([[fern], [{ name: 'Oak' }]]);
  });

  test('distinguishes 64-bit IDs to the last digit', async () => {
    const { alice, bob } = await served();
    await bob.create(9_007_199_254_740_993n, { name: 'Oak' });
    const ids = [
      -9_223_372_036_854_775_808n,
      -9_223_372_036_854_775_807n,
      9_007_199_254_740_992n,
      9_007_199_254_740_993n,
      9_223_372_036_854_775_806n,
      9_223_372_036_854_775_807n,
    ];
    for (const id of ids) expect((await alice.create(id, { name: `Fern ${id}` })).status).toBe(200);
    for (const id of ids) await refusedWith(40003, await alice.create(id, fern));
    expect((await listOf(alice)).map(({ name }) => name)).toEqual(ids.map((id) => `Fern ${id}`));
  });

  test('returns unusual text unchanged, in names, tags and user names', async () => {
    const { as } = await startReady({ EVENTSTOREDB_URL });
    const { alice, bob } = newUsers();
    const odd: Plant[] = [
      { name: '', tag: '' },
      { name: 'nul \0, quote ", backslash \\, line\u2028, \u007f', tag: '$all' },
      { name: 'F\u00e9rn, Fe\u0301rn, 🌱, \u{10ffff}', tag: '%00 %2F +' },
      { name: 'x'.repeat(20_000), tag: '{"$maxCount":1}' },
    ];
    const users = [`${alice}/1`, `${alice} 🌱 %2F`, `$${bob}`, `${bob} e\u0301`, `${bob} \u00e9`];
    for (const user of users)
      for (const [id, plant] of odd.entries()) await as(user).create(id, { ...plant, tag: user });
    for (const user of users)
      expect(await listOf(as(user))).toEqual(odd.map(({ name }) => ({ name, tag: user })));
    for (const [id, plant] of odd.entries()) await as(alice).create(id, plant);
    expect(await listOf(as(alice))).toEqual(odd);
  });

  test('returns the position of a created plant, and rejects one of another log', async () => {
    const { alice, bob } = await served();
    const position = positionIn(await alice.create(1, fern));
    await bob.create(1, { name: 'Oak' });
    const response = await untilAvailable(() => alice.get('', { 'log-position': position }));
    expect(await response.json()).toEqual([fern]);
    const [logId, offset] = position.split('.') as [string, string];
    expect(BigInt(positionIn(response).split('.')[1] ?? '')).toBeGreaterThanOrEqual(BigInt(offset));
    await refusedWith(40005, await alice.get('', { 'log-position': `${logId}x.${offset}` }));
  });
});

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

describe.skipIf(!server)('two instances over EventStoreDB in a container', () => {
  test('accept each other’s tokens and Log-Positions', async () => {
    const instances = await twoInstances(EVENTSTOREDB_URL);
    const { alice, bob } = newUsers();
    for (let id = 1; id <= 20; id++) {
      const [here, there] = id % 2 === 0 ? instances : instances.toReversed();
      await here?.as(bob).create(id, { name: `Oak ${id}` });
      const created = await here?.as(alice).create(id, { name: `Fern ${id}` });
      const upTo = { 'log-position': positionIn(created as Response) };
      const response = await untilAvailable(() => (there ?? instances[0]).as(alice).get('', upTo));
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual(
        Array.from({ length: id }, (_, i) => ({ name: `Fern ${i + 1}` })),
      );
    }
  });

  test('store a plant posted to both at once, and reject a different one', async () => {
    const [first, second] = await twoInstances(EVENTSTOREDB_URL);
    const { alice, bob } = newUsers();
    for (let id = 1; id <= 20; id++) {
      const same = await Promise.all([first, second].map(({ as }) => as(alice).create(id, fern)));
      expect(same.map(({ status }) => status)).toEqual([200, 200]);
      expect(new Set(same.map(positionIn)).size).toBe(1);
      const others = await Promise.all([
        first.as(bob).create(id, { name: 'Oak' }),
        second.as(bob).create(id, { name: 'Elm' }),
      ]);
      expect(others.map(({ status }) => status).sort()).toEqual([200, 400]);
    }
    expect(await listOf(first.as(alice))).toHaveLength(20);
    expect(await listOf(second.as(bob))).toHaveLength(20);
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
