import { describe, expect, test } from 'vitest';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import { formatEntryBundle } from '../../src/notes/entryBundle.ts';
import { alarmOf, check, checked } from './checking.ts';
import { entries, FakeLog, toEntry } from './fakeLog.ts';

const ALL = entries(300);
const stub = (number: number): string => `{"erased":"${leafHash(ALL[number - 1] as string)}"}`;

/** The entry of a record that names the stubs of these events. */
function record(...numbers: number[]): string {
  const events = numbers.map((n) => `{"leaf":"${leafHash(ALL[n - 1] as string)}","position":"${n}"}`);
  return `{"data":{"events":[${events}],"log":"s1"},"id":"i","metadata":{},"revision":"0","stream":"plant-erasure-i","type":"EventsErased"}`;
}

describe('a monitor', () => {
  test('accepts a stub that a later record names, with the leaf hash that the tree has', async () => {
    const log = new FakeLog([...ALL.slice(0, 9).with(2, stub(3)), record(3)]);
    const { state, slept } = await checked(log);
    expect(state.unnamed).toEqual([]);
    expect(slept).toEqual([]); // nothing else is fetched
  });

  test('raises an alarm for a stub that no record names', async () => {
    const log = new FakeLog(ALL.slice(0, 9).with(2, stub(3)));
    const { message, files } = await alarmOf(log);
    expect(message).toBe(
      'unrecorded erasure: event 3 was erased, and none of the 9 events is a record of it; 1 such event',
    );
    expect(Object.keys(files)).toEqual(['received.checkpoint', 'stubs.txt']);
    expect(files['stubs.txt']).toBe(`3 ${leafHash(ALL[2] as string)} 9\n`);
  });

  test.each([
    ['an earlier record', [record(3), ...ALL.slice(0, 9).with(2, stub(3))]],
    ['a record of another event', [...ALL.slice(0, 9).with(2, stub(3)), record(4)]],
    [
      'an event with the text of a record',
      [...ALL.slice(0, 9).with(2, stub(3)), toEntry(10, { name: record(3) })],
    ],
    ['a record that is no JSON', [...ALL.slice(0, 9).with(2, stub(3)), `x${record(3)}`]],
  ])('does not count %s', async (_, log) => {
    expect((await alarmOf(new FakeLog(log))).message).toContain('unrecorded erasure: event ');
  });

  test('raises an alarm for a stub with another leaf hash than the tree', async () => {
    const log = new FakeLog([...ALL.slice(0, 9).with(2, stub(3)), record(3, 4)]);
    const altered = log.log.with(2, Buffer.from(stub(4)));
    log.entries = async () => formatEntryBundle(altered);
    expect((await alarmOf(log)).message).toBe(
      'mismatch: the entry of event 3 does not have its hash in the tree',
    );
  });

  test('waits for the size that the log has signed after the stub was read', async () => {
    const log = new FakeLog([...ALL.slice(0, 9).with(2, stub(3)), record(3), ...ALL.slice(9, 12)]);
    const behind = Object.assign(log, {
      checkpoint: async () => at(log, 9),
      latest: async () => at(log, 13),
    });
    const { state } = await checked(behind);
    expect(state.unnamed).toEqual([
      { number: 3, leaf: leafHash(ALL[2] as string), bySize: 13, since: expect.any(String) },
    ]);
    expect(state.pending.map(({ size }) => size)).toEqual([13]);
    const later = Object.assign(log, { checkpoint: async () => at(log, 13) });
    expect((await checked(later, state)).state.unnamed).toEqual([]);
  });

  test('raises the alarm once the checkpoint has reached that size', async () => {
    const log = new FakeLog(ALL.slice(0, 20).with(2, stub(3)));
    Object.assign(log, { checkpoint: async () => at(log, 9), latest: async () => at(log, 13) });
    const { state } = await checked(log);
    Object.assign(log, { checkpoint: async () => at(log, 12) });
    const { found, slept } = await check(log, { ...state, pending: [] });
    expect(found?.state.unnamed).toEqual(state.unnamed);
    expect(slept).toEqual([]);
    Object.assign(log, { checkpoint: async () => at(log, 13) });
    expect((await alarmOf(log, found?.state)).message).toContain('unrecorded erasure: event 3');
  });

  test('raises the alarm after a day, whatever size the log has stated', async () => {
    const log = new FakeLog(ALL.slice(0, 20).with(2, stub(3)));
    Object.assign(log, { checkpoint: async () => at(log, 9), latest: async () => at(log, 20) });
    const { state } = await checked(log);
    const unnamed = state.unnamed.map((one) => ({
      ...one,
      since: new Date(Date.parse(one.since) - 86_400_001).toISOString(),
    }));
    expect((await alarmOf(log, { ...state, unnamed, pending: [] })).message).toContain(
      'unrecorded erasure: event 3',
    );
  });

  test('keeps stubs that were read before when it compares all events again', async () => {
    const log = new FakeLog([...ALL.slice(0, 9).with(2, stub(3)), record(3)]);
    const { state } = await checked(new FakeLog(ALL.slice(0, 9)));
    const { found } = await check(log, state, { all: true });
    expect(found?.state.unnamed).toEqual([]);
  });

  test('does not check if the newest checkpoint is smaller', async () => {
    const log = new FakeLog(ALL.slice(0, 9).with(2, stub(3)));
    Object.assign(log, { latest: async () => at(log, 5) });
    const { error } = await check(log);
    expect(error).toMatchObject({ name: 'NotChecked' });
  });
});

const at = (log: FakeLog, size: number): Promise<Buffer> => new FakeLog(log.log.slice(0, size)).checkpoint();
