import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { canMount, expectStartFailure, isRoot, smallDisk, storeFern } from '../support/disk.ts';
import { startServer } from '../support/process.ts';
import { client } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const NOBODY = 65_534;

describe.skipIf(!canMount)('a full disk', () => {
  test('lets a server stop gracefully, and start again when there is space', async () => {
    const { dir, visiblePath, command, fill, free } = await smallDisk();
    const server = await startServer({ command, env: { DATA_DIR: dir } });
    await client(server.url, visiblePath)('alice').create(1, { name: 'Fern' });
    fill();
    await client(server.url, visiblePath)('alice').create(2, { name: 'Late' });
    process.kill(server.pid, 'SIGTERM');
    expect((await server.ended).code).toBe(0);
    free();
    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect((await client(again.url, visiblePath)('alice').list())[0]).toEqual({ name: 'Fern' });
  });

  test('makes a first start fail', async () => {
    const { dir, command, fill } = await smallDisk();
    fill();
    await expectStartFailure({ command, env: { DATA_DIR: dir } }, dir);
  });

  test('makes a later start fail, and the log is not changed', async () => {
    const { dir, visiblePath, command, fill, free } = await smallDisk();
    await storeFern({ command, env: { DATA_DIR: dir } }, visiblePath);
    const before = readFileSync(join(visiblePath, 'log.db'));
    fill();
    await expectStartFailure({ command, env: { DATA_DIR: dir } }, dir);
    expect(readFileSync(join(visiblePath, 'log.db')).equals(before)).toBe(true);
    free();
    const again = await startServer({ command, env: { DATA_DIR: dir } });
    expect(await client(again.url, visiblePath)('alice').list()).toEqual([{ name: 'Fern' }]);
  });
});

describe('a read-only data directory', () => {
  const reader = isRoot ? { uid: NOBODY, gid: NOBODY } : {};

  test('makes a first start fail', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    await expectStartFailure({ ...reader, env: { DATA_DIR: dir } }, dir);
  });

  test('makes a start fail if it has to be created in a read-only directory', async () => {
    const dir = tempDir();
    chmodSync(dir, isRoot ? 0o755 : 0o500);
    const DATA_DIR = join(dir, 'data');
    await expectStartFailure({ ...reader, env: { DATA_DIR } }, DATA_DIR);
  });
});
