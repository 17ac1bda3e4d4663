import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { erasable } from '@event-sourced/testing/erase';
import { alterLog } from '@event-sourced/testing/logs';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { NO_STREAM, type RecordedEvent } from '../../../event-log/src/eventStore.ts';
import { event, everything } from '../../../event-log/src/testing/contract.ts';
import { Follower } from '../../../event-log/src/views/follow.ts';
import { digestOf, stubOf } from '../../src/digest/eventEntry.ts';
import { ErasureRefused, eraseStreams } from '../../src/erasure/eraseStreams.ts';
import { assertExtends } from '../../src/signer/contradiction.ts';
import { MerkleTreeView } from '../../src/view/treeView.ts';

/** A log with an event of each of these users, and its tree, whose head is signed. */
async function logOf(...users: string[]) {
  const dir = tempDir();
  const treeFile = join(dir, 'merkleTree.db');
  const store = erasable(await openIn(dir));
  for (const [i, user] of users.entries())
    await store.append(`plant-${user}/${i}`, event(`plant of ${user}`), NO_STREAM);
  async function openTree() {
    const view = MerkleTreeView.open(treeFile);
    const follower = new Follower({ store: store.forHashing, view });
    let closed: Promise<void> | undefined;
    const close = () => (closed ??= follower.stop().then(() => view.close()));
    onTestFinished(close);
    await follower.reached(await store.lastPosition());
    return { follower, view, close };
  }
  let tree = await openTree();
  const { size, root } = tree.view.head;
  return {
    dir,
    store,
    signed: { size, root },
    view: () => tree.view,
    /** Without the timeout of an erasure, for a slow machine. */
    caughtUp: async () => tree.follower.reached(await store.lastPosition()),
    /** As a damaged tile does: the follower builds the tree again, while requests go on. */
    rebuildNow: async () => {
      expect(() => tree.view.discard('damaged')).toThrow('rebuilt');
      await tree.follower.reached(await store.lastPosition());
    },
    /** Removes the tree, and builds it again. */
    rebuild: async () => {
      await tree.close();
      rmSync(treeFile);
      tree = await openTree();
    },
    erase: (user: string, nextTurn?: () => Promise<void>) =>
      eraseStreams(store, {
        nextTurn,
        streams: { start: `plant-${user}/`, has: (stream) => stream.startsWith(`plant-${user}/`) },
        prefix: 'plant-',
        tree: tree.follower,
        assertTreeExtends: () => assertExtends({ size, root }, tree.view.head, tree.view.readTile),
        now: () => new Date('2026-01-01T00:00:00.000Z'),
      }),
  };
}

test('events are erased, and a record names their indices', async () => {
  const { store, erase } = await logOf('alice', 'bob', 'alice');
  const [first, bob, third] = (await everything(store)) as [RecordedEvent, RecordedEvent, RecordedEvent];
  expect(await erase('alice')).toEqual({ events: 2, records: [3] });
  expect(await everything(store)).toEqual([
    { position: 1n, ...stubOf(digestOf(first), 'plant-') },
    bob,
    { position: 3n, ...stubOf(digestOf(third), 'plant-') },
    {
      position: 4n,
      stream: expect.stringMatching(/^plant-erasure-/),
      revision: 0n,
      id: expect.any(String),
      type: 'EventsErased',
      data: { erased: [0, 2] },
      metadata: { occurredAt: '2026-01-01T00:00:00.000Z' },
    },
  ]);
  expect(await erase('alice')).toEqual({ events: 0, records: [] });
});

test('the tree is the same when it is built again', async () => {
  const { store, erase, rebuild, view, signed } = await logOf('alice', 'bob');
  const entries = view().readEntries(0, 2);
  await erase('alice');
  await rebuild();
  await assertExtends(signed, view().head, view().readTile);
  expect(view().readEntries(0, 2)).toEqual(entries);
  await store.append('plant-bob/9', event('later'), NO_STREAM);
  expect(await erase('bob')).toEqual({ events: 2, records: [4] });
});

test('many events are erased in portions of whole streams, each with its record, so that appends go on', async () => {
  const { store, erase, caughtUp } = await logOf();
  const append = (stream: number, revision: bigint) =>
    store.append(`plant-alice/${stream}`, event('x'), revision);
  await Promise.all(Array.from({ length: 2_001 }, (_, i) => append(i, NO_STREAM)));
  await append(999, 0n);
  await caughtUp();
  const portions = vi.spyOn(store, 'erase');
  expect(await erase('alice')).toEqual({ events: 2_002, records: [2_002, 2_003, 2_004] });
  expect(portions.mock.calls.map(([stubs]) => stubs.length)).toEqual([1_001, 1_000, 1]);
  for (const [stubs] of portions.mock.calls) {
    const positions = stubs.map(({ position }) => position);
    expect(positions).toEqual(positions.toSorted((a, b) => Number(a - b)));
  }
  expect(await erase('alice')).toEqual({ events: 0, records: [] });
});

describe('nothing is erased', () => {
  async function expectRefused(log: Awaited<ReturnType<typeof logOf>>, message: string): Promise<void> {
    const before = await everything(log.store);
    const error = await log.erase('alice').catch((refusal) => refusal);
    expect(error).toBeInstanceOf(ErasureRefused);
    expect(error.message).toContain(message);
    expect(await everything(log.store)).toEqual(before);
  }

  const ALTER = `UPDATE events SET data = '{"name":"altered"}' WHERE position = 3`;

  test('if an event was altered: a stub would hide it', async () => {
    const log = await logOf('alice', 'bob', 'alice');
    alterLog(log.dir, ALTER);
    await expectRefused(log, 'the event at position 3 is not the one in the Merkle tree');
  });

  test('if an event was altered, and the tree was deleted and built again', async () => {
    const log = await logOf('alice', 'bob', 'alice');
    alterLog(log.dir, ALTER);
    await log.rebuild();
    await expectRefused(log, 'the log contradicts its last signed checkpoint');
  });

  test('if events before it are missing: its index is beyond the tree', async () => {
    const log = await logOf('bob');
    const columns = 'type, data, metadata, recorded_at';
    alterLog(log.dir, `INSERT INTO events SELECT 9, 'x', 'plant-alice/1', 0, ${columns} FROM events`);
    await log.store.append('plant-bob/9', event('later'), NO_STREAM);
    await expectRefused(log, 'the event at position 9 is not the one in the Merkle tree');
  });

  test('if an event was altered, and the tree is built again while the events are read', async () => {
    const log = await logOf('alice', 'bob', 'alice');
    alterLog(log.dir, ALTER);
    const erasing = log.erase('alice', log.rebuildNow);
    await expect(erasing).rejects.toThrow('the log contradicts its last signed checkpoint');
    expect((await everything(log.store)).map(({ type }) => type)).not.toContain('EventErased');
  });

  test('if one of the events is a record of erased events', async () => {
    const log = await logOf('alice');
    const record = { ...event('x'), type: 'EventsErased', data: { erased: [0] } };
    await log.store.append('plant-alice/record', record, NO_STREAM);
    await expectRefused(log, 'the event at position 2 is a record of erased events');
  });
});

test('what is appended meanwhile is not erased', async () => {
  const { store, erase } = await logOf('alice');
  const { readAll } = store.forHashing;
  let isFirst = true;
  store.forHashing.readAll = async (range) => {
    if (isFirst && range.prefix === 'plant-alice/') {
      isFirst = false;
      await store.append('plant-alice/late', event('late'), NO_STREAM);
    }
    return readAll(range);
  };
  expect(await erase('alice')).toEqual({ events: 1, records: [2] });
  expect((await everything(store)).map(({ stream }) => stream)).toContain('plant-alice/late');
});
