import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { canMount, expectRefusal, isRoot, smallDisk, storeFern } from '../support/disk.ts';
import { startServer } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const NOBODY = 65_534;

describe.skipIf(!canMount)('a full disk', () => {
  test('does not keep a server from ending in good order, nor from starting once there is room', async () => {
    const { dir, seen, command, fill, free } = await smallDisk();
    const server = await startServer({ command, env: { DATA_DIR: dir } });
    await client(server.url, seen)('alice').create(1, { name: 'Fern' });
    fill();
    await client(server.url, seen)('alice').create(2, { name: 'Late' });
    process.kill(server.pid, 'SIGTERM');
    expect((await server.ended).code).toBe(0);
    free();
    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect((await client(again.url, seen)('alice').list())[0]).toEqual({ name: 'Fern' });
  });

  test('refuses a first start', async () => {
    const { dir, command, fill } = await smallDisk();
    fill();
    await expectRefusal({ command, env: { DATA_DIR: dir } }, dir);
  });

  test('refuses a later start and leaves the log as it is', async () => {
    const { dir, seen, command, fill, free } = await smallDisk();
    await storeFern({ command, env: { DATA_DIR: dir } }, seen);
    const before = readFileSync(join(seen, 'log.db'));
    fill();
    await expectRefusal({ command, env: { DATA_DIR: dir } }, dir);
    expect(readFileSync(join(seen, 'log.db')).equals(before)).toBe(true);
    free();
    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect(await client(again.url, seen)('alice').list()).toEqual([{ name: 'Fern' }]);
  });
});

describe('a data directory that may only be read', () => {
  const reader = isRoot ? { uid: NOBODY, gid: NOBODY } : {};

  test('refuses a first start', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    await expectRefusal({ ...reader, env: { DATA_DIR: dir } }, dir);
  });

  test('refuses a start where it would have to be made in such a one', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    const DATA_DIR = join(dir, 'data');
    await expectRefusal({ ...reader, env: { DATA_DIR } }, DATA_DIR);
  });
});
