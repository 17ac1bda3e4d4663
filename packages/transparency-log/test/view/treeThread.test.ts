import { DatabaseSync } from 'node:sqlite';
import type { Worker } from 'node:worker_threads';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { runCli, succeeded } from '../../../../test/support/cli.ts';
import { stopClock } from '../../../../test/support/clock.ts';
import { logWith, plantOf, writeTo } from '../../../../test/support/logs.ts';
import { treeSaved } from '../../../../test/support/merkleTreeFile.ts';
import { startServiceWithTree } from '../../../../test/support/service.ts';
import { startFakeServer } from '../../../../test/support/stores.ts';
import { tempDir } from '../../../../test/support/tempDir.ts';
import { logIn, ready, rootOf, saved, startTree, treeIn } from '../../../../test/support/treeThread.ts';
import { REACHED_TIMEOUT_MS, ViewBehind } from '../../../event-log/src/views/waiting.ts';
import { rootFromTiles, type Tile } from '../../src/merkle/tiles.ts';

/** A log of this size with its tree, of which a tile of level 0 was altered. */
async function withAlteredTile(events: number, index: number): Promise<string> {
  const dir = logWith({ events });
  const { tree, close } = startTree(dir);
  await ready(tree);
  await close();
  using db = new DatabaseSync(treeIn(dir));
  const alter = 'UPDATE tiles SET hashes = CAST(zeroblob(8192) AS BLOB) WHERE level = 0 AND number = ?';
  db.prepare(alter).run(index);
  return dir;
}

describe('the Merkle tree of a log', () => {
  test('has the root of the log, and tiles for it and for every smaller tree', async () => {
    const dir = logWith({ events: 600 });
    const log = logIn(dir);
    const { tree } = startTree(dir);
    expect(() => tree.current).toThrow(ViewBehind);
    await ready(tree);
    const logId = await log.logId();
    expect(tree.current).toEqual({ logId, position: 600n, size: 600, root: await rootOf(log, 600) });
    const read = (tile: Tile) => tree.readTile(tile);
    for (const size of [1, 255, 256, 300, 512, 600])
      expect(await rootFromTiles(size, read)).toBe(await rootOf(log, size));
    await expect(tree.readTile({ level: 0, index: 2, width: 89 })).rejects.toThrow(ViewBehind);
    expect([88, 89].map((width) => tree.has({ level: 0, index: 2, width }))).toEqual([true, false]);
  });

  test('has the positions of the events of its tiles', async () => {
    const server = await startFakeServer();
    const events = writeTo(server, ...Array.from({ length: 300 }, (_, i) => plantOf('alice', i, 'Fern')));
    const { tree } = startTree(tempDir(), server.url);
    await saved(tree, events.at(-1)?.position as bigint);
    const at = (n: number) => events[n]?.position as bigint;
    expect(await Promise.all([tree.startOf(0), tree.startOf(1)])).toEqual([0n, at(255)]);
    expect(await tree.tileOf(at(0))).toEqual({ index: 0, startsAfter: 0n });
    expect(await tree.tileOf(at(255))).toEqual({ index: 0, startsAfter: 0n });
    expect(await tree.tileOf(at(256))).toEqual({ index: 1, startsAfter: at(255) });
  });

  test('grows with the log; what it has not reached is waited for', async () => {
    const dir = logWith({ events: 10 });
    const { tree } = startTree(dir);
    await saved(tree, 10n);
    stopClock();
    const reached = tree.reached(11n);
    logWith({ dir, events: 1, after: 10 });
    await reached;
    expect(tree.current).toMatchObject({ size: 11, root: await rootOf(logIn(dir), 11) });
    await tree.reached(11n, tree.current.logId);
    const late = [tree.reached(12n), tree.reached(1n, 'another log')].map((one) =>
      expect(one).rejects.toThrow(ViewBehind),
    );
    vi.advanceTimersByTime(REACHED_TIMEOUT_MS);
    await Promise.all(late);
  });

  test('is rebuilt once, if its file is found damaged again before the first rebuild is known', async () => {
    const { tree, logged } = startTree(logWith({ events: 300 }));
    await ready(tree);
    tree.rebuild('first');
    tree.rebuild('second');
    await expect.poll(() => tree.rebuilds).toBe(1); // what was sent before may make it ready once more
    await ready(tree);
    expect(tree.rebuilds).toBe(1);
    expect(logged()).toContain('first');
    expect(logged()).not.toContain('second');
    expect(tree.current.size).toBe(300);
    tree.rebuild('third');
    await expect.poll(() => tree.rebuilds).toBe(2);
  });

  test('is rebuilt if a tile that no root is computed from is altered, once it has started', async () => {
    const { tree, logged } = startTree(await withAlteredTile(257 * 256, 200));
    await ready(tree);
    await expect.poll(() => tree.rebuilds).toBe(1);
    await ready(tree);
    expect(logged()).toContain('its tiles contradict each other');
    expect(await tree.readTile({ level: 0, index: 200, width: 256 })).not.toEqual(Buffer.alloc(8_192));
  });

  test('is rebuilt once, without a failure, if its file is damaged at the start', async () => {
    const { tree, close } = startTree(await withAlteredTile(600, 1));
    await ready(tree);
    await close(); // the check of the file has ended
    expect([tree.rebuilds, tree.failures]).toEqual([1, 0]);
  });

  test('is built by a thread with little space for new objects', async () => {
    const threads: Worker[] = [];
    const onThread = (thread: Worker) => void threads.push(thread);
    process.on('worker', onThread);
    onTestFinished(() => void process.off('worker', onThread));
    const { tree } = startTree(logWith({ events: 1 }));
    await ready(tree);
    expect(threads).toMatchObject([{ resourceLimits: { maxYoungGenerationSizeMb: 8 } }]);
  });
});

describe('a service', () => {
  test('rebuilds the tree while plants are created', async () => {
    const dir = logWith({ events: 2_000 });
    const service = await startServiceWithTree({ DATA_DIR: dir });
    const created = await Promise.all(
      Array.from({ length: 100 }, (_, i) => service.as('alice').create(10_000 + i, { name: 'Fern' })),
    );
    expect(created.map(({ status }) => status)).toEqual(created.map(() => 200));
    await treeSaved(dir, 2_100);
    await service.close();
    const verified = JSON.parse(succeeded(await runCli(['verify', '--json'], { DATA_DIR: dir })));
    expect(verified).toMatchObject({ size: 2_100, tree: '2100', problems: [] });
  });
});
