import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { canMount, expectStartFailure, isRoot, NOBODY, READER, smallDisk } from '../support/disk.ts';
import { untilAvailable } from '../support/instances.ts';
import { MAIN, NODE, run } from '../support/process.ts';
import { startServer } from '../support/server.ts';
import { client, startService } from '../support/service.ts';

/** A small disk, on which the service can start. */
async function smallDiskOfService(env: Record<string, string> = {}) {
  const disk = await smallDisk();
  const options = { command: disk.command, env: { DATA_DIR: disk.dir, ...env } };
  return {
    ...disk,
    start: async () => {
      const server = await startServer(options);
      return { ...server, as: client(server.url, disk.visiblePath) };
    },
    expectStartFailure: () => expectStartFailure(options, disk.dir),
  };
}

describe.skipIf(!canMount)('a full disk', () => {
  test('makes only POST return 503, and recovers when there is space', async () => {
    const { start, fill, free } = await smallDiskOfService();
    const server = await start();
    const [alice, bob] = [server.as('alice'), server.as('bob')];
    const before = ['Fern', 'Moss', 'Oak'].map((name) => ({ name }));
    for (const [id, plant] of before.entries()) expect((await alice.create(id, plant)).status).toBe(200);

    fill();
    for (let i = 0; i < 3; i++) {
      const refused = await Promise.all([alice, bob].map(({ create }) => create(10, { name: 'Late' })));
      for (const response of refused) {
        expect(response.status).toBe(503);
        expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
        expect(await response.json()).toMatchObject({ error: 50301 });
      }
      const listed = await alice.get();
      expect(listed.status).toBe(200);
      expect(await listed.json()).toEqual(before);
      expect((await fetch(`${server.url}/health/live`)).status).toBe(200);
      await pause(500); // so that the view tries to save
    }

    free();
    expect((await untilAvailable(() => alice.create(10, { name: 'Late' }))).status).toBe(200);
    expect((await alice.create(11, { name: 'Later' })).status).toBe(200);
    const after = [...before, { name: 'Late' }, { name: 'Later' }];
    expect(await (await untilAvailable(() => alice.get())).json()).toEqual(after);
    expect((await server.terminate()).code).toBe(0);
    expect(server.stdout()).toMatch(/"error":50301,"reason":"[^"]+","msg":"request failed"/);
    expect(server.stdout()).not.toMatch(/StoreUnavailable.*\\n +at /);
    expect(await (await start()).as('alice').list()).toEqual(after);
  });

  test('lets a server stop without being killed, and start again when there is space', async () => {
    const { start, fill, free } = await smallDiskOfService();
    const server = await start();
    await server.as('alice').create(1, { name: 'Fern' });
    fill();
    await server.as('alice').create(2, { name: 'Late' });
    const { code } = await server.terminate();
    expect(code).toBe(server.stdout().includes('"shutdown failed"') ? 1 : 0); // unless Fern was saved before
    free();
    expect((await (await start()).as('alice').list())[0]).toEqual({ name: 'Fern' });
  });

  test('makes a later start fail, and the log is not changed', async () => {
    const { visiblePath, start, fill, free, expectStartFailure } = await smallDiskOfService();
    const server = await start();
    await server.as('alice').create(1, { name: 'Fern' });
    expect((await server.terminate()).code).toBe(0);
    const before = readFileSync(join(visiblePath, 'log.db'));
    fill();
    await expectStartFailure();
    expect(readFileSync(join(visiblePath, 'log.db')).equals(before)).toBe(true);
    free();
    expect(await (await start()).as('alice').list()).toEqual([{ name: 'Fern' }]);
  });
});

test.skipIf(!canMount)('a full disk does not keep prove from proving what was signed', async () => {
  const { command: service, dir, start, fill } = await smallDiskOfService({ MERKLE_TREE: 'on' });
  const server = await start();
  const alice = server.as('alice');
  await alice.create(1, { name: 'Fern' });
  expect((await alice.request('/proofs/plants?id=1')).status).toBe(200); // signed
  await server.terminate();
  const command = (...args: string[]) =>
    run({ command: [...service, ...args], env: { DATA_DIR: dir, MERKLE_TREE: 'on' } });
  expect(await command('log-key')).toMatchObject({ code: 0 });
  const prove = () => command('prove', '--user', 'alice', '--id', '1');
  const proof = await prove();
  expect(proof).toMatchObject({ code: 0, stderr: '' });
  fill();
  expect(await prove()).toEqual(proof);
});

describe('a start fails with one line that names', () => {
  test.for(['log.db', 'lock.db', 'view.db'])('%s if it is read-only', async (name) => {
    const dir = tempDir();
    await (await startService({ DATA_DIR: dir })).close();
    if (isRoot) for (const part of ['.', ...readdirSync(dir)]) chownSync(join(dir, part), NOBODY, NOBODY);
    const file = join(dir, name);
    chmodSync(file, 0o444);
    const line = await expectStartFailure({ ...READER, env: { DATA_DIR: dir } }, file);
    expect(line).toMatch(/permission denied/);
  });

  test('key.json if it is a fifo', async () => {
    const dir = tempDir();
    execFileSync('mkfifo', ['-m', '600', join(dir, 'key.json')]);
    await expectStartFailure({ env: { DATA_DIR: dir } }, join(dir, 'key.json'));
  });

  test.runIf(existsSync('/proc/self'))('a data directory in /proc', async () => {
    for (const DATA_DIR of ['/proc/data', '/proc/plants/data'])
      await expectStartFailure({ env: { DATA_DIR } }, DATA_DIR);
  });
});

describe('a copy of log.db in a read-only directory', () => {
  const inReadOnlyDir = (...files: string[]): string => {
    const dir = tempDir();
    for (const file of files) copyFileSync(file, join(dir, file.replace(/.*log/, 'log')));
    for (const name of readdirSync(dir)) chmodSync(join(dir, name), 0o444);
    chmodSync(dir, 0o555);
    onTestFinished(() => chmodSync(dir, 0o700)); // so that it can be removed
    return dir;
  };
  const command = (name: string, DATA_DIR: string, ...args: string[]) =>
    run({ ...READER, command: [NODE, MAIN, name, ...args], env: { DATA_DIR } });

  test('can be verified, replayed and backed up', async () => {
    const DATA_DIR = inReadOnlyDir(join(logWith({ events: 3 }), 'log.db'));
    const verified = await command('verify', DATA_DIR);
    expect(verified).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(/^problems +none$/m),
    });
    expect((await command('replay', DATA_DIR)).stdout.split('\n')).toHaveLength(4);
    const target = tempDir();
    chmodSync(target, 0o777);
    expect(await command('backup', DATA_DIR, join(target, 'backup.db'))).toMatchObject({
      code: 0,
      stdout: /^expect +(.+)$/m.exec(verified.stdout)?.[1]?.concat('\n'),
    });
    expect(readdirSync(DATA_DIR)).toEqual(['log.db']);
  });

  test('with its write-ahead log is refused with what to do', async () => {
    const { dir, as } = await startService();
    await as('alice').create(1, { name: 'Fern' });
    const DATA_DIR = inReadOnlyDir(join(dir, 'log.db'), join(dir, 'log.db-wal'));
    const { code, stdout, stderr } = await command('verify', DATA_DIR);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(
      /^cannot read the log [^\n]+; copy [^\n]+log\.db-wal to a directory that can be written\n$/,
    );
  });
});

describe('a read-only data directory', () => {
  test('makes a start fail, and the log is not changed', async () => {
    const dir = tempDir();
    const service = await startService({ DATA_DIR: dir });
    await service.as('alice').create(1, { name: 'Fern' });
    await service.close();
    const file = join(dir, 'log.db');
    const before = readFileSync(file);
    if (!isRoot) for (const name of ['lock.db', 'log.db', 'view.db']) chmodSync(join(dir, name), 0o400);
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    await expectStartFailure({ ...READER, env: { DATA_DIR: dir } }, dir);
    expect(readFileSync(file).equals(before)).toBe(true);
    chmodSync(dir, 0o700);
  });

  test('makes a first start fail, also if it has to be created in one', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    for (const DATA_DIR of [dir, join(dir, 'data')])
      await expectStartFailure({ ...READER, env: { DATA_DIR } }, DATA_DIR);
  });
});
