import { mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { eventId, logWith, plantOf, writeTo } from '@event-sourced/testing/logs';
import { overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { followTree, logIn, rootOf, treeIn } from '../../packages/transparency-log/test/support/tree.ts';

test('a Merkle tree is behind while a directory is in the place of its file, and is rebuilt then', async () => {
  const dir = logWith({ events: 300 });
  const { view, follower, logged } = followTree(dir);
  await follower.reached(300n);
  for (const part of ['', '-wal', '-shm']) rmSync(`${treeIn(dir)}${part}`, { force: true });
  mkdirSync(treeIn(dir));
  expect(() => view.discard('damaged')).toThrow('directory');
  expect(() => follower.ready).toThrow(ViewBehind);
  await expect.poll(logged).toContain('projection failed; retrying');
  expect(() => follower.ready).toThrow(ViewBehind);
  rmdirSync(treeIn(dir));
  await follower.reached(300n);
  expect(view.head).toMatchObject({ size: 300, root: await rootOf(logIn(dir), 300) });
  expect(view.readTile({ level: 0, index: 0, width: 256 })).toHaveLength(8_192);
});

test('a Merkle tree waits for an EventStoreDB that is unavailable, and is rebuilt if it has another log', async () => {
  const plants = (name: string) =>
    [1, 2, 3].map((id) => ({ ...plantOf('alice', id, name), id: eventId(id) }));
  const server = await startFakeServer();
  await server.stop();
  const { view, follower, logged } = followTree(tempDir(), await overFakeServer(server.url));
  await expect.poll(logged).toContain('event store unavailable; projection is waiting');
  await server.restart();
  server.write('invoice-1'); // its random ID identifies the log
  writeTo(server, ...plants('Fern'));
  await expect.poll(() => follower.notReady ?? view.head.size).toBe(3);
  await server.stop();
  const other = await startFakeServer({ port: server.port });
  other.write('invoice-1');
  writeTo(other, ...plants('Oak'));
  const root = await rootOf(await overFakeServer(other.url), 3);
  await expect.poll(() => follower.notReady ?? view.head.root).toBe(root);
  expect(logged()).toContain('it belongs to another log');
});
