import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { erasable, recordOf } from '@event-sourced/testing/erase';
import { openIn, overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { copyLog } from '../../../event-log/src/copy/copyLog.ts';
import { EVENTS_ERASED } from '../../../event-log/src/erasure/erasure.ts';
import {
  type ErasableStore,
  type EventLog,
  type EventStore,
  NO_STREAM,
  type RecordedEvent,
} from '../../../event-log/src/eventStore.ts';
import { event } from '../../../event-log/src/testing/contract.ts';
import { digestOf, stubOf } from '../../src/digest/eventEntry.ts';
import { rootOfLog } from '../../src/entries/appendEntries.ts';
import { verifyLog } from '../../src/entries/verify.ts';
import { MerkleTreeView } from '../../src/view/treeView.ts';

const { signal } = new AbortController();

/** A log with an event of each of these users. */
async function storeWith(...users: string[]): Promise<{ dir: string; store: ErasableStore }> {
  const dir = tempDir();
  const store = erasable(await openIn(dir));
  for (const [i, user] of users.entries())
    await store.append(`plant-${user}/${i}`, event(`plant of ${user}`), NO_STREAM);
  return { dir, store };
}

const eventAt = async (store: EventLog, index: number) =>
  (await store.readEvent(BigInt(index) + 1n)) as RecordedEvent;
const stubAt = async (store: ErasableStore, index: number) => {
  const at = await eventAt(store.forHashing, index);
  return { position: at.position, ...stubOf(digestOf(at), 'plant-') };
};

/** Erases the events at these indices, with a record that names them, or others. */
async function erase(store: ErasableStore, indices: number[], named = indices): Promise<void> {
  const stubs = await Promise.all(indices.map((index) => stubAt(store, index)));
  await store.erase(stubs, named.length === 0 ? [] : [recordOf(named, 'plant-')]);
}

const verify = (store: EventStore, more: object = {}) =>
  verifyLog({
    log: store.forHashing,
    gapless: true,
    isKnown: (type) => type === 'Created',
    findProblem: () => undefined,
    skip: new Set(),
    signal,
    ...more,
  });

const problemsOf = async (store: EventStore, more = {}) => (await verify(store, more)).problems;
const notNamed = (index: number) => ({
  position: BigInt(index) + 1n,
  problem: `no later record names this erased event, index ${index}`,
});

describe('a log with erased events', () => {
  test('has its earlier root, and no problems', async () => {
    const { store } = await storeWith('alice', 'bob', 'alice');
    const before = await rootOfLog(store.forHashing, signal);
    await erase(store, [0, 2]);
    expect(await rootOfLog(store.forHashing, signal, 3)).toEqual(before);
    expect(await verify(store, { expect: before })).toMatchObject({
      size: 4,
      hasExpected: true,
      erased: 2,
      records: 1,
      problems: [],
    });
  });

  test('has no problems in a copy in EventStoreDB, whose positions are others', async () => {
    const { store } = await storeWith('alice', 'bob');
    await erase(store, [0]);
    const to = await overFakeServer((await startFakeServer()).url);
    await copyLog({ from: store.forHashing, to });
    const { root, problems } = await verify(to, { gapless: false });
    expect(problems).toEqual([]);
    expect(root).toBe((await rootOfLog(store.forHashing, signal)).root);
  });
});

describe('verifying finds', () => {
  test('an erased event without a record', async () => {
    const { store } = await storeWith('alice', 'bob');
    await erase(store, [0], []);
    expect(await problemsOf(store)).toEqual([notNamed(0)]);
  });

  test('a record of what is still there, and an event that is erased after it', async () => {
    const { store } = await storeWith('alice', 'bob', 'alice');
    await erase(store, [0], [0, 1]);
    const blanket = { position: 4n, problem: 'it names index 1, whose event is not erased, index 3' };
    expect(await problemsOf(store)).toEqual([blanket]);
    await erase(store, [2], []);
    expect(await problemsOf(store)).toEqual([notNamed(2), blanket]);
  });

  test('an event that was put back', async () => {
    const { dir, store } = await storeWith('alice', 'bob');
    const { id, stream, type, data, metadata } = await eventAt(store, 0);
    await erase(store, [0]);
    await store.close();
    {
      using db = new DatabaseSync(join(dir, 'log.db'));
      db.exec('DROP TRIGGER events_are_never_updated');
      db.prepare(
        'UPDATE events SET id = ?, stream = ?, type = ?, data = ?, metadata = ? WHERE position = 1',
      ).run(id, stream, type, JSON.stringify(data), JSON.stringify(metadata));
    }
    expect(await problemsOf(await openIn(dir))).toEqual([
      { position: 3n, problem: 'it names index 0, whose event is not erased, index 2' },
    ]);
  });

  test('a record that was erased itself, also if another record names both', async () => {
    const { store } = await storeWith('alice', 'bob');
    await erase(store, [0]);
    await erase(store, [2], [0, 2]);
    expect(await problemsOf(store)).toEqual([
      { position: 3n, problem: 'this erased event was a record of erased events, index 2' },
    ]);
  });

  test.each([
    ['that is malformed', { erased: ['0'] }, 'it is malformed, index 1'],
    ['of itself', { erased: [1] }, 'it names index 1, which does not precede it, index 1'],
  ])('a record %s', async (_, data, problem) => {
    const { store } = await storeWith('alice');
    await store.append('plant-x', { ...event('x'), type: EVENTS_ERASED, data }, NO_STREAM);
    expect(await problemsOf(store)).toEqual([{ position: 2n, problem }]);
  });
});

describe('events that are erased meanwhile', () => {
  test('may be recorded after the end that the log had at the beginning', async () => {
    const { store } = await storeWith('alice', 'bob');
    const log = store.forHashing;
    const before = await log.lastPosition();
    await erase(store, [0]);
    let calls = 0;
    const lastPosition = async () => (calls++ === 0 ? before : log.lastPosition());
    const { size, erased, problems } = await verify(store, { log: { ...log, lastPosition } });
    expect({ size, erased, problems }).toEqual({ size: 2, erased: 1, problems: [] });
  });

  test.each(['before', 'after'] as const)(
    'are not recorded by data without a canonical form, %s the end that the log had at the beginning',
    async (where) => {
      const { store } = await storeWith('alice', 'bob');
      const log = store.forHashing;
      const before = await log.lastPosition();
      const { stream, event } = recordOf([0], 'plant-');
      await store.erase(
        [await stubAt(store, 0)],
        [{ stream, event: { ...event, metadata: { note: '\ud800' } } }],
      );
      let isFirst = where === 'after';
      const lastPosition = async () => {
        const end = isFirst ? before : await log.lastPosition();
        isFirst = false;
        return end;
      };
      const { problems, records } = await verify(store, { log: { ...log, lastPosition } });
      expect(records).toBe(0);
      expect(problems).toContainEqual(notNamed(0));
      expect(problems).toContainEqual({ position: 3n, problem: 'it is malformed, index 2' });
    },
  );

  /** Verifies a log that shows its first event as it was, and then its stub, or that of another event. */
  async function erasedWhileRead(other?: object) {
    const { dir, store } = await storeWith('alice', 'bob');
    const first = await eventAt(store.forHashing, 0);
    const treeFile = join(dir, 'merkleTree.db');
    const view = MerkleTreeView.open(treeFile);
    view.bind(await store.logId());
    await erase(store, [0]);
    view.apply((await store.forHashing.readAll({ after: 0n, limit: 9 })).events);
    view.close();
    const log = store.forHashing;
    const readAll: EventLog['readAll'] = async (range) => {
      const page = await log.readAll(range);
      return { ...page, events: page.events.map((one) => (one.position === 1n ? first : one)) };
    };
    const readEvent: EventLog['readEvent'] = async (position) => {
      if (position !== 1n || !other) return log.readEvent(position);
      return { position, ...stubOf(digestOf({ ...first, ...other }), 'plant-') };
    };
    const open = (draft: string) => MerkleTreeView.open(draft);
    const views = [{ name: 'merkleTree', file: treeFile, open }];
    return problemsOf(store, { log: { ...log, readAll, readEvent }, views });
  }

  test('are read again, and are no problem', async () => {
    expect(await erasedWhileRead()).toEqual([]);
  });

  test('are a problem if what was erased is not what is in the tree', async () => {
    expect(await erasedWhileRead({ data: { name: 'altered' } })).toEqual([
      { position: 3n, problem: 'it names index 0, whose event is not erased, index 2' },
    ]);
  });
});
