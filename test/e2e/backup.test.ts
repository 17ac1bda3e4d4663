import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { createCheckout } from '../support/checkout.ts';
import { Load } from '../support/load.ts';
import { shellBlocksOf } from '../support/markdown.ts';
import { ROOT, run } from '../support/process.ts';
import { checkpointOf, startService, startServiceWithTree } from '../support/service.ts';

// The commands of docs/backup.md, pasted in order. Those for systemd and containers are in deploying.test.ts, interrupted backups in test/faults.

const PAGE = readFileSync(join(ROOT, 'docs/backup.md'), 'utf8');
const [BACKUP = '', CHECK = '', RESTORE = '', LOST = ''] = shellBlocksOf(PAGE).filter(
  (block) => !/\/var\/(lib|backups)\/|^docker |^kubectl /m.test(block),
);

/** A checkout whose `data` is this directory, or does not exist. Returns a function that pastes a block there. */
function checkout(dir: string, data?: string) {
  createCheckout(dir);
  if (data !== undefined) symlinkSync(data, join(dir, 'data'));
  return (block: string, replaced = '') =>
    run({ command: ['sh', '-ec', `cd '${dir}'\n${block.replace('SIZE:ROOT', replaced)}`] });
}

test('docs/backup.md has no other commands', () => {
  expect(shellBlocksOf(PAGE)).toHaveLength(12);
});

test('while the service handles POSTs, a backup is complete; verify finds no problems in it, and the service starts with it', async () => {
  const home = await startService();
  const dir = tempDir();
  const paste = checkout(dir, home.dir);
  const load = new Load();
  load.start(home);
  await load.more(40);

  const before = load.acknowledged.map(({ name }) => name);
  const files = readdirSync(dir);
  const { code, stdout, stderr } = await paste(BACKUP);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^[^\n]+\n$/) });
  const [head = '', size] = /^(\d+):[\da-f]{64}(?=\n$)/.exec(stdout) ?? [];
  expect(readdirSync(dir)).toEqual([...files, 'copy.db'].sort());
  const file = join(dir, 'copy.db');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const copied = rowsIn(file);
  expect(copied).toHaveLength(Number(size));
  const names = copied.map(({ data }) => JSON.parse(data).name);
  expect(new Set(names).isSupersetOf(new Set(before))).toBe(true);
  await load.more(20);
  expect(rowsIn(join(home.dir, 'log.db')).slice(0, copied.length)).toEqual(copied);
  const beside = await paste('bin/plant-store verify --json --expect SIZE:ROOT', head);
  expect(beside).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(beside.stdout).size).toBeGreaterThan(copied.length);
  const checked = await paste(CHECK, head);
  expect(checked).toMatchObject({ code: 0, stdout: expect.stringMatching(/^problems +none$/m) });
  expect(checked.stdout).toMatch(RegExp(`^size +${size}$`, 'm'));

  await load.stop();
  await home.close();
  const restored = await paste(RESTORE);
  expect(restored.code).toBe(1);
  const lost = load.acknowledged.map(({ name }) => name).filter((name) => !names.includes(name));
  const named = [...restored.stdout.matchAll(/ does not follow from the log: .*"name":"(.*?)"/g)].map(
    ([, name]) => name,
  );
  expect(named).not.toEqual([]);
  expect(lost).toEqual(expect.arrayContaining(named));
  const again = await startService({ DATA_DIR: home.dir });
  for (const user of ['alice', 'bob']) {
    expect((await again.as(user).create(-1, { name: 'Fern' })).status).toBe(200);
    const kept = names.filter((name) => name.startsWith(user));
    expect((await again.as(user).list()).map(({ name }) => name)).toEqual([...kept, 'Fern']);
  }
  await again.close();
  const verified = await paste('bin/plant-store verify --expect SIZE:ROOT', head);
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringMatching(/^problems +none$/m) });
  expect(verified.stdout).toMatch(/^view +plantsByUser compared up to position [1-9]/m);
});

test('on another machine, the log continues with the keys and the checkpoint that an auditor had', async () => {
  const home = await startServiceWithTree();
  await home.as('alice').create(1, { name: 'Fern' });
  const dir = tempDir();
  const other = tempDir();
  expect(await checkout(dir, home.dir)(BACKUP)).toMatchObject({ code: 0 });
  const checkpoint = await checkpointOf(1, home.as('auditor', 'audit'));
  await expect.poll(() => existsSync(join(home.dir, 'erased'))).toBe(true);
  await home.close();
  const paste = checkout(other);
  copyFileSync(join(dir, 'copy.db'), join(other, 'copy.db'));
  for (const name of ['erased', 'key.json', 'log-key.json'])
    copyFileSync(join(home.dir, name), join(other, name));
  writeFileSync(join(other, 'monitor.checkpoint'), checkpoint);

  const found = await paste(LOST);
  expect(found).toMatchObject({ code: 0, stdout: expect.stringMatching(/^problems +none$/m) });
  expect(found.stdout).toMatch(/^expected +the log begins with 1:/m);
  const [signed = ''] = readdirSync(home.dir).filter((name) => /^checkpoint-[\da-f]{8}$/.test(name));
  expect(readFileSync(join(other, 'data', signed), 'utf8')).toBe(checkpoint);
  const again = await startServiceWithTree({ DATA_DIR: join(other, 'data') });
  const alice = again.as('alice');
  expect(await alice.list()).toEqual([{ name: 'Fern' }]);
  await alice.create(2, { name: 'Moss' });
  const next = await checkpointOf(2, again.as('auditor', 'audit'));
  expect(next.split('\n')[0]).toBe(checkpoint.split('\n')[0]);
});
