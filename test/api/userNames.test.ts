import { refusedWith } from '@event-sourced/testing/refusal';
import { describe, expect, test } from 'vitest';
import { runCli, succeeded } from '../support/cli.ts';
import { listed } from '../support/eventStoreDbService.ts';
import { checkpointOf, startServiceWithTree } from '../support/service.ts';

// No name is trimmed, decoded twice or normalized: that would be another user.
describe.each([
  ['alice ', 'alice'],
  ['Jose\u0301', 'José'],
  ['alice/1', 'alice'],
  ['alice%20', 'alice '],
])('the user %j is the same everywhere, and not %j', (user, other) => {
  test('in each operation and each command', async () => {
    const service = await startServiceWithTree();
    const auditor = service.as('carol', 'audit');
    const env = { DATA_DIR: service.dir, MERKLE_TREE: 'on' };
    const command = (name: string, ...args: string[]) => runCli([name, ...args], env);
    const headers = { 'content-type': 'application/json' };
    const erase = (name: string) => {
      const body = JSON.stringify({ user: name });
      return service.as('dana', 'erase').request('/erasures', { method: 'POST', headers, body });
    };
    const token = succeeded(await command('token', '--', user)).trim();
    const authorization = `Bearer ${token}`;
    const plant = '{"id":1,"name":"Fern"}';
    const created = { method: 'POST', headers: { ...headers, authorization }, body: plant };
    expect((await fetch(`${service.url}/plants`, created)).status).toBe(200);
    await checkpointOf(1, auditor);
    expect(await listed(service.as(user))).toEqual([{ name: 'Fern' }]);
    expect(await listed(service.as(other))).toEqual([]);
    const routes = ['/events?user=', '/events?order=descending&user=', '/events/histogram?user='];
    for (const route of routes) {
      const found = await auditor.request(route + encodeURIComponent(user));
      expect([route, found.status, (await found.text()).includes('"count":0')]).toEqual([route, 200, false]);
      const message = await refusedWith(40004, await auditor.request(route + encodeURIComponent(other)));
      expect(message).toContain(`no event of the user ${JSON.stringify(other)}`);
    }
    const receipt = (name: string) => auditor.request(`/proofs/plants?id=1&user=${encodeURIComponent(name)}`);
    expect((await receipt(user)).status).toBe(200);
    await refusedWith(40402, await receipt(other));
    expect(succeeded(await command('replay', `--user=${user}`))).toContain('"name":"Fern"');
    expect(await command('replay', `--user=${other}`)).toMatchObject({ code: 1, stdout: '' });
    succeeded(await command('prove', `--user=${user}`, '--id=1'));
    expect(await command('prove', `--user=${other}`, '--id=1')).toMatchObject({ code: 1, stdout: '' });
    expect(await (await erase(other)).json()).toMatchObject({ events: 0 });
    await service.close();
    expect((await command('erase', '--yes', '--', other)).stdout).toBe('erased 0 events; records: none\n');
    expect((await command('erase', '--yes', '--', user)).stdout).toBe('erased 1 events; records: 1\n');
  });
});

test.each(['', 'a\n'])('%j is no user anywhere', async (user) => {
  const service = await startServiceWithTree();
  const env = { DATA_DIR: service.dir, MERKLE_TREE: 'on' };
  const auditor = service.as('carol', 'audit');
  const value = encodeURIComponent(user);
  for (const path of [
    `/events?user=${value}`,
    `/events/histogram?user=${value}`,
    `/proofs/plants?id=1&user=${value}`,
  ])
    expect(await refusedWith(40004, await auditor.request(path))).toContain('must be 1 to 255 characters');
  const body = JSON.stringify({ user });
  const headers = { 'content-type': 'application/json' };
  const erasing = await service.as('dana', 'erase').request('/erasures', { method: 'POST', headers, body });
  expect(await refusedWith(40002, erasing)).toContain('must be 1 to 255 characters');
  await service.close();
  for (const args of [
    ['token', '--', user],
    ['replay', `--user=${user}`],
    ['erase', '--yes', '--', user],
  ]) {
    const { code, stdout, stderr } = await runCli(args, env);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('must be 1 to 255 characters')]);
  }
});
