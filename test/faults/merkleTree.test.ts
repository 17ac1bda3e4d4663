import { mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { eventId, logWith, plantOf, writeTo } from '@event-sourced/testing/logs';
import { overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { toEntry } from '../../packages/transparency-log/src/entries/leaf.ts';
import { readEntries } from '../../packages/transparency-log/src/entries/readEntries.ts';
import { issueReceipt } from '../../packages/transparency-log/src/entries/receipt.ts';
import { parseEntryBundle } from '../../packages/transparency-log/src/notes/entryBundle.ts';
import { followTree, logIn, rootOf, treeIn } from '../../packages/transparency-log/test/support/tree.ts';
import { changeOnlyTable } from '../support/damage.ts';

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

test('a Merkle tree is rebuilt if the position of a tile was altered when its entries are read', async () => {
  const { follower, log, alterPosition } = await followed();
  const read = async () => {
    const bundles = readEntries({ tree: follower, log }, { index: 1, width: 256, nextTurn: async () => {} });
    return parseEntryBundle(Buffer.concat(await Array.fromAsync(bundles)));
  };
  alterPosition();
  await expect(read()).rejects.toThrow(ViewBehind);
  await follower.reached(600n);
  expect((await read())[0]).toEqual(toEntry((await log.readEvent(257n)) as RecordedEvent));
  expect(follower.rebuilds).toBe(1);
});

test('a Merkle tree is rebuilt if the position of a tile was altered when a receipt is made', async () => {
  const { view, follower, log, alterPosition } = await followed();
  const event = (await log.readEvent(280n)) as RecordedEvent;
  const checkpoints = { headWith: () => view.head, sign: async () => 'checkpoint' };
  const receipt = () => issueReceipt(event, { tree: follower, log, checkpoints });
  alterPosition();
  await expect(receipt()).rejects.toThrow(ViewBehind);
  await follower.reached(600n);
  expect(await receipt()).toContain('checkpoint');
  expect(follower.rebuilds).toBe(1);
});

/** A saved tree of three tiles, and a function that alters the position before its second one. */
async function followed() {
  const dir = logWith({ events: 600 });
  const log = logIn(dir);
  const { view, follower } = followTree(dir);
  await follower.reached(600n);
  view.save();
  const sql = 'UPDATE tiles SET starts_after = 300 WHERE level = 0 AND number = 1';
  return { view, follower, log, alterPosition: () => changeOnlyTable(treeIn(dir), sql) };
}

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
