import { copyFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { Load } from '../support/load.ts';
import { MAIN, NODE, run } from '../support/process.ts';
import { startService } from '../support/service.ts';

// Interrupted backups are in test/faults.

test('while the service handles POSTs, npm run backup makes a complete copy, with which the service can start, and verify finds no problems', async () => {
  const home = await startService();
  const load = new Load();
  load.start(home);
  await load.more(40);

  const before = load.acknowledged.map(({ name }) => name);
  const file = join(tempDir(), 'copy.db');
  const { code, stdout, stderr } = await run({
    command: ['npm', 'run', '-s', 'backup', '--', file],
    env: { DATA_DIR: home.dir },
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^[^\n]+\n$/) });
  const [, size, root] = /^(\d+):([\da-f]{64})\n$/.exec(stdout) ?? [];
  expect(readdirSync(dirname(file))).toEqual(['copy.db']);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const copied = rowsIn(file);
  expect(copied).toHaveLength(Number(size));
  const names = copied.map(({ data }) => JSON.parse(data).name);
  expect(new Set(names).isSupersetOf(new Set(before))).toBe(true);
  await load.more(20);
  expect(rowsIn(join(home.dir, 'log.db')).slice(0, copied.length)).toEqual(copied);
  const expected = ['--expect', `${size}:${root}`];
  const beside = await run({
    command: [NODE, MAIN, 'verify', '--json', ...expected],
    env: { DATA_DIR: home.dir },
  });
  expect(beside).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(beside.stdout).size).toBeGreaterThan(copied.length);

  // As documented: stop the service, replace the log, start.
  await load.stop();
  await home.close();
  for (const name of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(home.dir, name), { force: true });
  copyFileSync(file, join(home.dir, 'log.db'));
  const again = await startService({ DATA_DIR: home.dir });
  for (const user of ['alice', 'bob']) {
    expect((await again.as(user).create(-1, { name: 'Fern' })).status).toBe(200);
    const restored = names.filter((name) => name.startsWith(user));
    expect((await again.as(user).list()).map(({ name }) => name)).toEqual([...restored, 'Fern']);
  }
  await again.close();
  const verified = await runCli(['verify', ...expected], { DATA_DIR: home.dir, MERKLE_TREE: 'off' });
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringMatching(/^problems +none$/m) });
  expect(verified.stdout).toMatch(/^view +compared up to position [1-9]/m);
});
