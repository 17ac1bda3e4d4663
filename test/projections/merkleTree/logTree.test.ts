import { cpSync, existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pino from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { LogTree } from '../../../projections/merkleTree/logTree.ts';
import { REACHED_TIMEOUT_MS, ViewBehind } from '../../../projections/waiting.ts';
import { leafText } from '../../../src/audit/leaf.ts';
import type { EventLog, Position } from '../../../src/eventStore/eventStore.ts';
import { openLogReader } from '../../../src/eventStore/sqlite/read.ts';
import { rootFromTiles, type Tile } from '../../../src/merkle/tiles.ts';
import { everything } from '../../eventStore/contract.ts';
import { MTH } from '../../merkle/rfc9162.ts';
import { runCli, succeeded } from '../../support/cli.ts';
import { stopClock } from '../../support/clock.ts';
import { damagePage } from '../../support/damage.ts';
import { eventId, logWith, plantOf, writeTo } from '../../support/logs.ts';
import { treeSaved } from '../../support/merkleTreeFile.ts';
import { startService, startServiceWithTree } from '../../support/service.ts';
import { overFakeServer, startFakeServer } from '../../support/stores.ts';
import { tempDir } from '../../support/tempDir.ts';

const treeIn = (dir: string): string => join(dir, 'merkleTree.db');

/** The tree of the log in a directory, or of EventStoreDB, until the end of the test. */
function startTree(dir: string, url?: string) {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const eventStoreDb =
    url === undefined ? {} : { eventStoreDb: { url, timeoutMs: 10_000, setting: 'the test' } };
  const location = { dataDir: dir, ...eventStoreDb };
  const tree = new LogTree({ file: treeIn(dir), location, logger, onProgress: () => {} });
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= tree.close());
  onTestFinished(close);
  return { tree, close, logged: () => lines.join('') };
}

const ready = (tree: LogTree) => expect.poll(() => tree.notReady).toBeUndefined();
const saved = (tree: LogTree, position: Position) =>
  expect.poll(() => tree.notReady ?? tree.current.position).toBe(position);

function logIn(dir: string): EventLog {
  const log = openLogReader(join(dir, 'log.db'), { exact: true });
  onTestFinished(() => log.close());
  return log;
}

/** The root by definition, of the first `size` events. */
async function rootOf(log: EventLog, size: number): Promise<string> {
  return MTH((await everything(log)).slice(0, size).map((event) => leafText(event).text));
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
    const read = (tile: Tile) => tree.readTile(tile) as Buffer;
    for (const size of [1, 255, 256, 300, 512, 600])
      expect(await rootFromTiles(size, read)).toBe(await rootOf(log, size));
    expect(tree.readTile({ level: 0, index: 2, width: 89 })).toBeUndefined();
    expect([88, 89].map((width) => tree.has({ level: 0, index: 2, width }))).toEqual([true, false]);
    expect(tree.readTile({ level: 0, index: 3, width: 1 })).toBeUndefined();
  });

  test('has the positions of the events of its tiles', async () => {
    const server = await startFakeServer();
    const events = writeTo(server, ...Array.from({ length: 300 }, (_, i) => plantOf('alice', i, 'Fern')));
    const { tree } = startTree(tempDir(), server.url);
    await saved(tree, events.at(-1)?.position as bigint);
    const at = (n: number) => events[n]?.position as bigint;
    expect([0, 1, 2].map((index) => tree.startOf(index))).toEqual([0n, at(255), undefined]);
    expect(tree.tileOf(at(0))).toEqual({ index: 0, startsAfter: 0n });
    expect(tree.tileOf(at(255))).toEqual({ index: 0, startsAfter: 0n });
    expect(tree.tileOf(at(256))).toEqual({ index: 1, startsAfter: at(255) });
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

  test('of a process that was killed is complete after the next start', async () => {
    const [dir, killed] = [logWith({ events: 500 }), tempDir()];
    const { tree } = startTree(dir);
    await ready(tree);
    logWith({ dir, events: 200, after: 500 });
    await saved(tree, 700n);
    logWith({ dir, events: 50, after: 700 });
    cpSync(dir, killed, { recursive: true }); // the files if it were killed now
    const next = startTree(killed);
    await ready(next.tree);
    expect(next.tree.current).toMatchObject({ size: 750, root: await rootOf(logIn(dir), 750) });
    expect(next.logged()).not.toContain('rebuilding');
  });

  test('is rebuilt if its file is found damaged when it is read', async () => {
    const dir = logWith({ events: 600 });
    const before = startTree(dir);
    await ready(before.tree);
    await before.close();
    const { tree, logged } = startTree(dir);
    await ready(tree);
    damagePage(treeIn(dir), 'tiles');
    expect(() => tree.readTile({ level: 0, index: 0, width: 256 })).toThrow(ViewBehind);
    expect(tree.notReady).toBeDefined();
    await ready(tree);
    expect(tree.readTile({ level: 0, index: 0, width: 256 })).toHaveLength(8_192);
    expect(logged()).toContain('rebuilding view');
  });

  test.each([0, 1])('is rebuilt if a hash is altered in level %i while it is read', async (level) => {
    const dir = logWith({ events: 600 });
    const { tree, logged } = startTree(dir);
    await ready(tree);
    const read = () => tree.readTile({ level: 0, index: 0, width: 100 });
    const hashes = read();
    using db = new DatabaseSync(treeIn(dir));
    const altered = Buffer.alloc(level === 0 ? 8_192 : 64, 7);
    db.prepare('UPDATE tiles SET hashes = ? WHERE level = ? AND number = 0').run(altered, level);
    db.close();
    expect(read).toThrow(ViewBehind);
    await ready(tree);
    expect(read()).toEqual(hashes);
    expect(logged()).toContain('does not have the root of tile 0 of level 0');
  });

  test.each([
    ['before it is first read', false],
    ['after it was read', true],
  ])('is rebuilt if its file is deleted %s', async (_, isRead) => {
    const dir = logWith({ events: 300 });
    const { tree, logged } = startTree(dir);
    await ready(tree);
    const read = () => tree.readTile({ level: 0, index: 0, width: 256 });
    if (isRead) expect(read()).toHaveLength(8_192);
    for (const part of ['', '-wal', '-shm']) rmSync(`${treeIn(dir)}${part}`, { force: true });
    if (isRead) logWith({ dir, events: 1, after: 300 });
    else expect(read).toThrow(ViewBehind);
    await expect.poll(logged).toContain('rebuilding view');
    await ready(tree);
    expect(read()).toHaveLength(8_192);
    expect(existsSync(treeIn(dir))).toBe(true);
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
});

describe('over EventStoreDB', () => {
  const plants = (count: number, name: string) =>
    Array.from({ length: count }, (_, i) => ({ ...plantOf('alice', i, name), id: eventId(i + 1) }));

  test('two instances have the same root at the same size', async () => {
    const server = await startFakeServer();
    server.write('invoice-1'); // is not part of the tree
    const last = writeTo(server, ...plants(300, 'Fern')).at(-1)?.position as bigint;
    const [one, other] = [startTree(tempDir(), server.url), startTree(tempDir(), server.url)];
    for (const { tree } of [one, other]) await saved(tree, last);
    expect(one.tree.current).toEqual(other.tree.current);
    const root = await rootOf(await overFakeServer(server.url), 300);
    expect(one.tree.current).toMatchObject({ size: 300, root });
  });

  test('the tree waits for a server that is unavailable, and is rebuilt if it has another log', async () => {
    const server = await startFakeServer();
    await server.stop();
    const { tree, logged } = startTree(tempDir(), server.url);
    await expect.poll(logged).toContain('event store unavailable; projection is waiting');
    await server.restart();
    server.write('invoice-1'); // its random ID identifies the log
    writeTo(server, ...plants(3, 'Fern'));
    await expect.poll(() => tree.notReady ?? tree.current.size).toBe(3);
    await server.stop();
    const other = await startFakeServer({ port: server.port });
    other.write('invoice-1');
    writeTo(other, ...plants(3, 'Oak'));
    const root = await rootOf(await overFakeServer(other.url), 3);
    await expect.poll(() => tree.notReady ?? tree.current.root).toBe(root);
    expect(logged()).toContain('it belongs to another log');
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

  test('creates and lists plants while the tree fails', async () => {
    const dir = tempDir();
    mkdirSync(treeIn(dir));
    const service = await startServiceWithTree({ DATA_DIR: dir });
    const failed = () => service.log().some(({ msg }) => msg === 'the Merkle tree failed; restarting it');
    await expect.poll(failed).toBe(true);
    expect((await service.as('alice').create(1, { name: 'Fern' })).status).toBe(200);
    expect(await service.as('alice').list()).toEqual([{ name: 'Fern' }]);
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
  });

  test('has no tree with MERKLE_TREE=off', async () => {
    const { dir, as } = await startService({ MERKLE_TREE: 'off' });
    expect((await as('alice').create(1, { name: 'Fern' })).status).toBe(200);
    expect(existsSync(treeIn(dir))).toBe(false);
    expect((await as('carol', 'audit').request('/checkpoint')).status).toBe(404);
  });
});
