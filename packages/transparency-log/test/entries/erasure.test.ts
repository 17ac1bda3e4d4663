import { alterLog } from '@event-sourced/testing/logs';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { canErase, type ErasableStore, eraseStreams } from '../../../event-log/src/eraseStreams.ts';
import { stubOf } from '../../../event-log/src/erasure.ts';
import { type EventStore, NO_STREAM, type RecordedEvent } from '../../../event-log/src/eventStore.ts';
import { toCloudEvent } from '../../../event-log/src/replay/cloudEvent.ts';
import { event, everything } from '../../../event-log/src/testing/contract.ts';
import { rootOfLog } from '../../src/entries/appendLeaves.ts';
import { cloudEventLeafHash, hashedAttributes } from '../../src/entries/cloudEventLeaf.ts';
import { leafOf, toEntry } from '../../src/entries/leaf.ts';
import { erasedLeaf } from '../../src/entries/stub.ts';
import { verifyLog } from '../../src/entries/verify.ts';
import { MerkleTree } from '../../src/merkle/merkleTree.ts';

const streamsFrom = (start: string) => ({ start, has: (stream: string) => stream.startsWith(start) });

const { signal } = new AbortController();

async function storeWith(...users: string[]): Promise<{ dir: string; store: ErasableStore }> {
  const dir = tempDir();
  const store = await openIn(dir);
  for (const [i, user] of users.entries())
    await store.append(`plant-${user}/${i}`, event(`plant of ${user}`), NO_STREAM);
  if (!canErase(store)) throw new Error('the embedded log can erase');
  return { dir, store };
}

const erase = (store: ErasableStore, user: string): Promise<number> =>
  eraseStreams(store, {
    streams: streamsFrom(`plant-${user}/`),
    prefix: 'plant-',
    leafOf,
    now: () => new Date(),
  });

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

const problemsOf = async (store: EventStore): Promise<string[]> =>
  (await verify(store)).problems.map(({ problem }) => problem);

describe('a log with erased events', () => {
  test('has its earlier roots, and no problems', async () => {
    const { store } = await storeWith('alice', 'bob', 'alice');
    const before = await rootOfLog(store.forHashing, signal);
    expect(await erase(store, 'alice')).toBe(2);
    expect(await rootOfLog(store.forHashing, signal, 3)).toEqual(before);
    expect(await verify(store, { expect: before })).toMatchObject({
      size: 4,
      hasExpected: true,
      erased: 2,
      problems: [],
    });
  });

  test('has the same root in its CloudEvents, in which stubs have their leaf hash only', async () => {
    const { store } = await storeWith('alice', 'bob');
    await erase(store, 'alice');
    const cloudEvents = (await everything(store.forHashing)).map((one) =>
      JSON.parse(JSON.stringify(toCloudEvent(one, { source: 'urn:s', hashed: hashedAttributes }))),
    );
    const tree = new MerkleTree();
    for (const one of cloudEvents) tree.append(cloudEventLeafHash(one));
    expect({ size: 3, root: tree.root() }).toEqual(await rootOfLog(store.forHashing, signal));
    expect(cloudEvents[0]).toMatchObject({
      type: 'EventErased',
      erased: expect.stringMatching(/^[\da-f]{64}$/),
    });
    expect(cloudEvents[0]).not.toHaveProperty('metadata');
    expect(cloudEvents[1]).not.toHaveProperty('erased');
  });

  test('has entries of stubs that are the leaf of no event', async () => {
    const { store } = await storeWith('alice');
    const [before] = (await everything(store)) as [RecordedEvent];
    await erase(store, 'alice');
    const [stub] = (await everything(store)) as [RecordedEvent];
    expect(`${toEntry(stub)}`).toBe(`{"erased":"${leafOf(before)}"}`);
    expect(erasedLeaf(toEntry(stub))).toBe(leafOf(before));
    expect(erasedLeaf(toEntry(before))).toBeUndefined();
  });
});

describe('verifying', () => {
  const NO_RECORD = /^no later record of an erasure names the stub of event 1: [\da-f]{64}$/;

  test('finds a stub without a record', async () => {
    const { store } = await storeWith('alice', 'bob');
    const [alice] = (await everything(store)) as [RecordedEvent];
    await store.erase([{ position: 1n, ...stubOf(leafOf(alice), 'plant-') }], []);
    expect(await problemsOf(store)).toEqual([expect.stringMatching(NO_RECORD)]);
  });

  test('finds a stub whose record names another leaf', async () => {
    const { dir, store } = await storeWith('alice', 'bob');
    await erase(store, 'alice');
    const leaf = '0'.repeat(64);
    alterLog(
      dir,
      `UPDATE events SET data = replace(data, substr(data, instr(data, '"leaf":"') + 8, 64), '${leaf}')
      WHERE type = 'EventsErased'`,
    );
    expect(await problemsOf(store)).toEqual([
      expect.stringMatching(NO_RECORD),
      'it names position 1, where no event with this hash is erased',
    ]);
  });

  test('finds a record that is not valid', async () => {
    const { store } = await storeWith('alice');
    const record = { ...event('x'), type: 'EventsErased' };
    await store.append('plant-erasure-x', record, NO_STREAM);
    expect(await problemsOf(store)).toEqual(['it is not a valid EventsErased']);
  });

  test('reads records beyond the end that the log had at the beginning', async () => {
    const { store } = await storeWith('alice', 'bob');
    const log = store.forHashing;
    const before = await log.lastPosition();
    await erase(store, 'alice');
    const lastPosition = async () => (calls++ === 0 ? before : log.lastPosition());
    let calls = 0;
    const { size, erased, problems } = await verify(store, { log: { ...log, lastPosition } });
    expect({ size, erased, problems }).toEqual({ size: 2, erased: 1, problems: [] });
  });
});
