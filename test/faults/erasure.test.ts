import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { filesWith } from '@event-sourced/testing/filesWith';
import { logWith, rowsIn } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { runCli, succeeded } from '../support/cli.ts';
import { damageFirstRows } from '../support/damage.ts';
import { canMount, expectStartFailure, smallDisk } from '../support/disk.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { MAIN, NODE, start } from '../support/process.ts';
import { startServer } from '../support/server.ts';
import { checkpointOf, client, startService, startServiceWithTree } from '../support/service.ts';
import { hasTerminal, onTerminal } from '../support/terminal.ts';

const USERS = 40;
const gardener = (i: number): string => `gardener${String(i).padStart(3, '0')}`;

/** A log in which the event at position p is of the gardener p % 40. */
const gardenersIn = (events: number): string =>
  logWith({ events, user: `format('gardener%03d', id % ${USERS})`, name: "'herb ' || id || '.'" });

const requestOf = (user: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ user }),
});

async function erase({ as }: { as: ReturnType<typeof client> }, user: string): Promise<Response> {
  return as('dana', 'erase').request('/erasures', requestOf(user));
}

const eventsOf = (dir: string, user: string): number =>
  rowsIn(join(dir, 'log.db')).filter(({ stream }) => stream.startsWith(`plant-${user}/`)).length;

describe('an erasure', () => {
  test('reaches views of an instance that was stopped before, and rebuilt views', async () => {
    const dir = gardenersIn(800);
    const [user, copied] = [gardener(7), tempDir()];
    const env = { DATA_DIR: dir, MERKLE_TREE: 'on' };
    const first = await startService(env);
    await first.as(user).list();
    await treeSaved(dir, 800);
    await first.close();
    for (const name of ['view.db', 'merkleTree.db']) copyFileSync(join(dir, name), join(copied, name));
    const service = await startService(env);
    expect(filesWith(copied, user)).toEqual(['view.db']);
    expect(await (await erase(service, user)).json()).toEqual({
      events: 20,
      records: [800],
      scrubbed: true,
    });
    await service.close();
    expect((await runCli(['backup', join(copied, 'log.db')], env)).code).toBe(0);
    const second = await startService({ ...env, DATA_DIR: copied });
    expect(await second.as(user).list()).toEqual([]);
    expect(await second.as(gardener(8)).list()).toHaveLength(20);
    await vi.waitFor(() => expect(filesWith(copied, user)).toEqual([]), 300_000);
    await second.close();
    for (const name of readdirSync(copied)) if (name.startsWith('view.db')) rmSync(join(copied, name));
    const third = await startService({ ...env, DATA_DIR: copied });
    expect(await third.as(gardener(8)).list()).toHaveLength(20);
    await third.close();
    expect(filesWith(copied, user)).toEqual([]);
    expect(await runCli(['verify'], { ...env, DATA_DIR: copied })).toMatchObject({ code: 0 });
  }, 600_000);

  /** The lifetimes of servers after the request, in milliseconds; the same in every run. */
  const LIFETIMES_MS = fc.sample(fc.noBias(fc.integer({ min: 0, max: 300 })), {
    numRuns: Number(process.env.ERASURE_KILLS ?? 8),
    seed: 2026,
  });

  test.each(LIFETIMES_MS)(
    'that is killed after %i ms is whole or none, and the next start finishes it',
    async (ms) => {
      const dir = gardenersIn(4_000);
      const user = gardener(7);
      const env = { DATA_DIR: dir, MERKLE_TREE: 'on' };
      const backup = join(tempDir(), 'log.db');
      copyFileSync(join(dir, 'log.db'), backup);
      const server = await startServer({ env });
      await server.as(user).list(); // the view has caught up
      const erasing = erase(server, user).catch(() => undefined);
      await pause(ms);
      await server.kill();
      await erasing;
      const service = await startService(env);
      const left = eventsOf(dir, user);
      expect([0, 100]).toContain(left);
      if (left > 0) expect((await erase(service, user)).status).toBe(200);
      await vi.waitFor(() => expect(filesWith(dir, user)).toEqual([]), 300_000);
      expect(await service.as(user).list()).toEqual([]);
      await service.close();
      expect(await runCli(['verify'], env)).toMatchObject({ code: 0 });
      copyFileSync(backup, join(dir, 'log.db'));
      const restored = await startService(env);
      expect(await restored.as(user).list()).toEqual([]);
      expect(eventsOf(dir, user)).toBe(0);
    },
    600_000,
  );

  test.skipIf(!canMount).each([
    ['full', 0],
    ['nearly full', 100 * 1024],
  ])(
    'on a %s disk is 507, says why, and erases nothing; with space, it erases',
    async (_, free) => {
      const disk = await smallDisk();
      const server = await startServer({
        command: disk.command,
        env: { DATA_DIR: disk.dir, MERKLE_TREE: 'on' },
      });
      const as = client(server.url, disk.visiblePath);
      for (let id = 0; id < 50; id++) await as('alice').create(id, { name: `Fern ${id}` });
      disk.fill(free);
      const refused = await erase({ as }, 'alice');
      expect(refused.status).toBe(507);
      expect(await refused.json()).toEqual({
        error: 50701,
        message: expect.stringMatching(/^There is too little free space: .* Nothing was erased\./),
      });
      expect(await as('alice').list()).toHaveLength(50);
      expect(server.stdout()).toMatch(
        /"reason":"erasing needs up to \d+ MiB of free space; nothing was erased"/,
      );
      disk.free();
      const response = await erase({ as }, 'alice');
      expect(await response.json()).toEqual({ events: 50, records: [50], scrubbed: true });
      expect(filesWith(disk.visiblePath, 'alice')).toEqual([]);
    },
    600_000,
  );
});

test.skipIf(!canMount)(
  'a start with a restored log and no space fails, and shows no erased person; with space, it erases again',
  async () => {
    const disk = await smallDisk();
    const env = { DATA_DIR: disk.dir, MERKLE_TREE: 'on' };
    const log = join(disk.visiblePath, 'log.db');
    const first = await startServer({ command: disk.command, env });
    for (let id = 0; id < 50; id++)
      await client(first.url, disk.visiblePath)('alice').create(id, { name: `Fern ${id}` });
    await first.terminate();
    const backup = readFileSync(log);
    const second = await startServer({ command: disk.command, env });
    const erased = await erase({ as: client(second.url, disk.visiblePath) }, 'alice');
    expect(await erased.json()).toMatchObject({ events: 50, scrubbed: true });
    await second.terminate();
    writeFileSync(log, backup);
    disk.fill();
    await expectStartFailure({ command: disk.command, env }, 'disk is full');
    disk.free();
    const third = await startServer({ command: disk.command, env });
    expect(await client(third.url, disk.visiblePath)('alice').list()).toEqual([]);
    await vi.waitFor(() => expect(filesWith(disk.visiblePath, 'alice')).toEqual([]), 300_000);
  },
  600_000,
);

test('while the file of what was erased cannot be written, an erasure is not scrubbed, and a line says why', async () => {
  const dir = gardenersIn(400);
  const service = await startServiceWithTree({ DATA_DIR: dir });
  await vi.waitFor(() => expect(existsSync(join(dir, 'erased'))).toBe(true), 300_000);
  await service.close();
  rmSync(join(dir, 'erased'));
  mkdirSync(join(dir, 'erased'));
  await expect(startServiceWithTree({ DATA_DIR: dir })).rejects.toThrow('it is not a regular file');
  rmSync(join(dir, 'erased'), { recursive: true });
  const again = await startServiceWithTree({ DATA_DIR: dir });
  await vi.waitFor(() => expect(existsSync(join(dir, 'erased'))).toBe(true), 300_000);
  rmSync(join(dir, 'erased'));
  mkdirSync(join(dir, 'erased')); // by another program
  expect(await (await erase(again, gardener(7))).json()).toMatchObject({ events: 10, scrubbed: false });
  expect(again.log()).toContainEqual(
    expect.objectContaining({
      msg: 'scrubbing failed; retrying',
      reason: expect.stringContaining(`cannot use ${join(dir, 'erased')}: `),
    }),
  );
  rmSync(join(dir, 'erased'), { recursive: true });
  await vi.waitFor(() => expect(readFileSync(join(dir, 'erased'), 'utf8')).toMatch(/\n$/), 300_000);
});

describe('erase', () => {
  const run = (dir: string, ...args: string[]) => runCli(['erase', ...args], { DATA_DIR: dir });

  test('does the same while the server is stopped', async () => {
    const dir = gardenersIn(400);
    const user = gardener(7);
    const service = await startServiceWithTree({ DATA_DIR: dir });
    await checkpointOf(400, service.as('carol', 'audit'));
    expect(await run(dir, user, '--yes')).toMatchObject({ code: 1, stdout: '' }); // it runs
    await service.close();
    for (const other of [{ LOG_ORIGIN: 'other.example' }, { LOG_KEY_FILE: join(dir, 'none.json') }]) {
      const refused = await runCli(['erase', user, '--yes'], { DATA_DIR: dir, ...other });
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toContain('with another LOG_KEY_FILE or LOG_ORIGIN');
    }
    expect(succeeded(await run(dir, user, '--yes'))).toBe('erased 10 events; records: 400\n');
    expect(filesWith(dir, user)).toEqual([]);
    const again = await run(dir, user, '--yes');
    expect(again).toMatchObject({ code: 0, stdout: 'erased 0 events; records: none\n' });
    expect(again.stderr).toContain(`the user "${user}" has no events`);
  });

  test('ends if the log is damaged where it is read for the tree, or where it is scrubbed', async () => {
    const dir = gardenersIn(2_000);
    const user = gardener(39); // without an event on the damaged page
    const service = await startServiceWithTree({ DATA_DIR: dir });
    await checkpointOf(2_000, service.as('carol', 'audit'));
    await service.close();
    damageFirstRows(join(dir, 'log.db'), 'events');
    const copy = tempDir();
    for (const name of ['log.db', 'log-key.json']) copyFileSync(join(dir, name), join(copy, name));
    const DAMAGED = 'the log is damaged: database disk image is malformed';
    const unread = await run(copy, user, '--yes');
    expect(unread).toMatchObject({ code: 1, stdout: '' });
    expect(unread.stderr.trimEnd().split('\n').at(-1)).toBe(DAMAGED);
    const unscrubbed = await run(dir, user, '--yes');
    expect(unscrubbed).toMatchObject({ code: 1, stdout: '' });
    expect(unscrubbed.stderr.trimEnd().split('\n').at(-1)).toBe(
      `erased 50 events, but files may have bytes of erased events: ${DAMAGED}`,
    );
  });

  test.skipIf(!hasTerminal)('asks on a terminal', async () => {
    const dir = gardenersIn(40);
    for (const [answer, left] of [
      ['n', 1],
      ['', 1],
      ['y', 0],
    ] as const) {
      const command = onTerminal([NODE, MAIN, 'erase', gardener(7)]);
      const asking = start({ command, env: { DATA_DIR: dir } });
      await asking.printed(/for ever\? \[y\/N\]/);
      asking.stdin.write(`${answer}\r`);
      await asking.ended;
      expect(eventsOf(dir, gardener(7))).toBe(left);
    }
  });

  test('erases nothing without a terminal, a log or a valid user', async () => {
    const dir = gardenersIn(40);
    expect((await run(dir, gardener(7))).stderr).toBe('without a terminal, --yes is required.\n');
    expect((await run(dir, '', '--yes')).stderr).toContain('the user must be');
    expect((await run(tempDir(), 'alice', '--yes')).stderr).toContain('there is no log');
    expect(eventsOf(dir, gardener(7))).toBe(1);
    const eventStoreDb = { DATA_DIR: dir, EVENTSTOREDB_URL: 'esdb://localhost:1?tls=false' };
    expect((await runCli(['erase', 'alice', '--yes'], eventStoreDb)).stderr).toContain(
      'docs/eventstoredb.md',
    );
  });
});
