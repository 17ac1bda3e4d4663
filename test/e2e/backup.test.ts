import { copyFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { rowsIn } from '../support/logs.ts';
import { MAIN, NODE, run } from '../support/process.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const USERS = ['alice', 'bob'] as const;

type Home = Awaited<ReturnType<typeof startService>>;
let ids = 0;

/** Posts plants of alice and bob by several clients until stopped. Each name has the user and a number. */
function startPosting({ as }: Home) {
  const acknowledged: string[] = [];
  let isPosting = true;
  async function post(user: string): Promise<void> {
    while (isPosting) {
      const id = ids++;
      const name = `${user} ${id}`;
      expect((await as(user).create(id, { name })).status).toBe(200);
      acknowledged.push(name);
      await pause(10); // leaves processor time to others
    }
  }
  const posting = Promise.all([...USERS, ...USERS].map(post));
  return {
    acknowledged,
    more: async (count: number) => {
      const minimum = acknowledged.length + count;
      await expect.poll(() => acknowledged.length).toBeGreaterThanOrEqual(minimum);
    },
    stop: async () => {
      isPosting = false;
      await posting;
    },
  };
}

// Interrupted backups are in test/faults.

test('while the service handles POSTs, npm run backup makes a complete copy, with which the service can start, and verify finds no problems', async () => {
  const home = await startService();
  const load = startPosting(home);
  await load.more(40);

  const before = [...load.acknowledged];
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
  const loadAgain = startPosting(again);
  await loadAgain.more(40);
  const sinceRestore = [...loadAgain.acknowledged];
  for (const user of USERS) {
    const list = (await again.as(user).list()).map(({ name }) => name);
    const restored = names.filter((name) => name.startsWith(user));
    expect(list.slice(0, restored.length)).toEqual(restored);
    const added = new Set(list.slice(restored.length));
    expect(added.isSupersetOf(new Set(sinceRestore.filter((name) => name.startsWith(user))))).toBe(true);
    expect(added.isDisjointFrom(new Set(before))).toBe(true);
  }
  await loadAgain.stop();
  await again.close();
  const verified = await runCli(['verify', ...expected], { DATA_DIR: home.dir, MERKLE_TREE: 'off' });
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringMatching(/^problems +none$/m) });
  expect(verified.stdout).toMatch(/^view +compared up to position [1-9]/m);
});
