import { existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import type { TreeThread } from '../../packages/transparency-log/src/view/treeThread.ts';
import { stopClock } from '../support/clock.ts';
import { changeOnlyTable } from '../support/damage.ts';
import { eventId, logWith, plantOf, writeTo } from '../support/logs.ts';
import { refusedWith } from '../support/refusal.ts';
import { startServiceWithTree } from '../support/service.ts';
import { overFakeServer, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';
import { logIn, ready, rootOf, saved, startTree, treeIn } from '../support/treeThread.ts';

const plants = (name: string) => [1, 2, 3].map((id) => ({ ...plantOf('alice', id, name), id: eventId(id) }));

describe('the Merkle tree of a log', () => {
  test.each([
    [0, 0, 256],
    [0, 2, 88],
    [1, 0, 2],
  ])('is rebuilt if a hash of level %i, tile %i, is altered in its file', async (level, index, width) => {
    const dir = logWith({ events: 600 });
    const { tree, logged } = startTree(dir);
    await ready(tree);
    using db = new DatabaseSync(treeIn(dir));
    const found = db.prepare('SELECT hashes FROM tiles WHERE level = ? AND number = ?').get(level, index);
    const altered = Buffer.alloc(width * 32, 7);
    db.prepare('UPDATE tiles SET hashes = ? WHERE level = ? AND number = ?').run(altered, level, index);
    db.close();
    await expect(tree.readTile({ level, index, width })).rejects.toThrow(ViewBehind);
    await ready(tree);
    expect(await tree.readTile({ level, index, width })).toEqual(Buffer.from(found?.hashes as Uint8Array));
    expect(logged()).toContain('its tiles contradict each other');
  });

  test.each([
    ['before it is first read', false],
    ['after it was read', true],
  ])('is rebuilt if its file is deleted %s', async (_, isRead) => {
    const dir = logWith({ events: 300 });
    const { tree, logged } = startTree(dir);
    await ready(tree);
    const read = () => tree.readTile({ level: 0, index: 0, width: 256 });
    if (isRead) expect(await read()).toHaveLength(8_192);
    for (const part of ['', '-wal', '-shm']) rmSync(`${treeIn(dir)}${part}`, { force: true });
    if (isRead) logWith({ dir, events: 1, after: 300 });
    else await expect(read()).rejects.toThrow(ViewBehind);
    await expect.poll(logged).toContain('rebuilding view');
    await ready(tree);
    expect(await read()).toHaveLength(8_192);
    expect(existsSync(treeIn(dir))).toBe(true);
  });

  test('is behind while a directory is in the place of its file, and is rebuilt then', async () => {
    const dir = logWith({ events: 300 });
    const { tree } = startTree(dir);
    await ready(tree);
    const read = () => tree.readTile({ level: 0, index: 0, width: 256 });
    for (const part of ['', '-wal', '-shm']) rmSync(`${treeIn(dir)}${part}`, { force: true });
    mkdirSync(treeIn(dir));
    for (const reading of [read, () => tree.startOf(0), () => tree.tileOf(1n)])
      await expect(reading()).rejects.toThrow(ViewBehind);
    logWith({ dir, events: 1, after: 300 });
    await expect.poll(() => tree.notReady).toBeDefined();
    rmdirSync(treeIn(dir));
    await saved(tree, 301n);
    expect(await read()).toHaveLength(8_192);
    expect(tree.current).toMatchObject({ size: 301, root: await rootOf(logIn(dir), 301) });
  });

  test('cannot be read while a reset fails, as on a full disk', async () => {
    const server = await startFakeServer();
    server.write('invoice-1');
    writeTo(server, plantOf('alice', 1, 'Fern'));
    const dir = tempDir();
    const { tree, logged } = startTree(dir, server.url);
    await expect.poll(() => tree.notReady ?? tree.current.size).toBe(1);
    const locking = new DatabaseSync(treeIn(dir));
    locking.exec('BEGIN IMMEDIATE');
    await server.stop();
    const other = await startFakeServer({ port: server.port });
    other.write('invoice-1');
    await expect.poll(logged).toMatch(/projection failed; retrying/);
    expect(() => tree.current).toThrow(ViewBehind);
    locking.exec('ROLLBACK');
    locking.close();
    await expect.poll(() => tree.notReady ?? tree.current.size).toBe(0);
  });

  test.each([
    ['entries are read', (tree: TreeThread) => tree.startOf(1), 256n],
    ['a receipt is made', (tree: TreeThread) => tree.tileOf(280n), { index: 1, startsAfter: 256n }],
  ])('is rebuilt if the position of a tile is altered when %s', async (_, read, expected) => {
    const dir = logWith({ events: 600 });
    const { tree, logged } = startTree(dir);
    await ready(tree);
    changeOnlyTable(treeIn(dir), 'UPDATE tiles SET starts_after = 300 WHERE level = 0 AND number = 1');
    await expect(read(tree)).rejects.toThrow(ViewBehind);
    await ready(tree);
    expect(await read(tree)).toEqual(expected);
    expect(logged()).toContain('tile 1 of level 0 has another position in the index');
  });

  test('is restarted when its thread fails', async () => {
    const dir = logWith({ events: 3 });
    mkdirSync(treeIn(dir));
    const { tree, logged } = startTree(dir);
    await expect
      .poll(() => tree.notReady)
      .toMatch(/^the Merkle tree has failed: cannot use the view .*merkleTree\.db/);
    expect(() => tree.current).toThrow(ViewBehind);
    rmdirSync(treeIn(dir));
    await ready(tree);
    expect(tree.current.size).toBe(3);
    expect(logged()).toContain('the Merkle tree failed; restarting it');
  });

  test('waits for an EventStoreDB that is unavailable, and is rebuilt if it has another log', async () => {
    const server = await startFakeServer();
    await server.stop();
    const { tree, logged } = startTree(tempDir(), server.url);
    await expect.poll(logged).toContain('event store unavailable; projection is waiting');
    await server.restart();
    server.write('invoice-1'); // its random ID identifies the log
    writeTo(server, ...plants('Fern'));
    await expect.poll(() => tree.notReady ?? tree.current.size).toBe(3);
    await server.stop();
    const other = await startFakeServer({ port: server.port });
    other.write('invoice-1');
    writeTo(other, ...plants('Oak'));
    const root = await rootOf(await overFakeServer(other.url), 3);
    await expect.poll(() => tree.notReady ?? tree.current.root).toBe(root);
    expect(logged()).toContain('it belongs to another log');
  });
});

test('a service creates and lists plants while the tree fails', async () => {
  const dir = tempDir();
  mkdirSync(treeIn(dir));
  const service = await startServiceWithTree({ DATA_DIR: dir });
  const failed = () => service.log().some(({ msg }) => msg === 'the Merkle tree failed; restarting it');
  await expect.poll(failed).toBe(true);
  expect((await service.as('alice').create(1, { name: 'Fern' })).status).toBe(200);
  expect(await service.as('alice').list()).toEqual([{ name: 'Fern' }]);
  expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
  stopClock(); // a checkpoint is not waited for
  const checkpoint = await service.as('carol', 'audit').request('/checkpoint');
  expect(checkpoint.headers.get('retry-after')).toBe('1');
  await refusedWith(50302, checkpoint);
});
