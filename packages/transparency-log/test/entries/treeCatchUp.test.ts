import { describe, expect, test } from 'vitest';
import {
  type EventLog,
  LogReplaced,
  type Position,
  START,
  StoreUnavailable,
} from '../../../event-log/src/eventStore.ts';
import { LogNotRead, TreeCatchUp } from '../../src/entries/treeCatchUp.ts';

/** A log of which every tenth position is that of an event in the tree, and a tree that has the first of them. */
function logAndTree(end: Position) {
  const state = {
    end,
    /** The last position that the log reports, if it is another one. */
    reportedEnd: undefined as Position | undefined,
    logId: 'm',
    position: START,
    /** How far the thread of the tree has read the log, and the last event up to there. */
    read: undefined as { to: Position; last: Position } | undefined,
    reads: [] as Position[],
    gone: -1n,
    isStuck: false,
    /** What the page after a position waits for. */
    page: async (_after: Position): Promise<void> => {},
    timeouts: [] as (number | undefined)[],
  };
  const log = {
    lastPosition: async () => state.reportedEnd ?? state.end,
    readAll: async ({ after, limit }: { after: Position; limit: number }) => {
      state.reads.push(after);
      await state.page(after);
      if (after === state.gone) throw new LogReplaced(`there is no event at position ${after}`);
      const last = after + BigInt(limit) < state.end ? after + BigInt(limit) : state.end;
      const events = [];
      for (let position = after + 1n; position <= last; position++)
        if (position % 10n === 0n) events.push({ position });
      return { events, position: last, isEnd: last === state.end };
    },
  } as unknown as EventLog;
  const tree = {
    get current() {
      const { logId, position } = state;
      return { logId, position, size: 0, root: '' };
    },
    get read() {
      return state.read ?? { to: state.position, last: state.position };
    },
    reached: async (position: Position, _logId: string | undefined, timeoutMs: number | undefined) => {
      state.timeouts.push(timeoutMs);
      if (position > state.position && state.isStuck) throw new Error('stuck');
      if (position > state.position) state.position = position;
    },
  };
  return { state, end: new TreeCatchUp({ log, tree }) };
}

describe('the end of the tree', () => {
  test('is reached when it has the last event, whatever follows in the log', async () => {
    const { state, end } = logAndTree(1_234n);
    await end.reached();
    expect(state.position).toBe(1_230n);
  });

  test('is reached at once in an empty log, and if nothing was added', async () => {
    const empty = logAndTree(START);
    await empty.end.reached();
    expect(empty.state.reads).toEqual([]);
    const { state, end } = logAndTree(7n);
    await end.reached();
    await end.reached();
    expect([state.position, state.reads]).toEqual([START, [START]]);
  });

  test('is found without reading twice what is not in the tree', async () => {
    const { state, end } = logAndTree(1_009n);
    await end.reached();
    expect(state.reads).toEqual([0n, 500n, 1_000n]);
    state.end = 1_011n;
    await end.reached();
    expect([state.position, state.reads.slice(3)]).toEqual([1_010n, [1_009n]]);
  });

  test('is found without reading what the thread of the tree has read', async () => {
    const { state, end } = logAndTree(1_239n);
    state.read = { to: 1_234n, last: 1_230n };
    await end.reached();
    expect([state.position, state.reads]).toEqual([1_230n, [1_234n]]);
    state.read = { to: 1_239n, last: 1_230n };
    await end.reached();
    expect(state.reads).toEqual([1_234n]);
  });

  test('that is looked for later has the events that were appended since', async () => {
    const { state, end } = logAndTree(9n);
    const { promise, resolve } = Promise.withResolvers<void>();
    state.page = () => promise;
    const earlier = end.reached();
    await expect.poll(() => state.reads).toEqual([0n]);
    state.end = 10n;
    const later = end.reached();
    resolve();
    await Promise.all([earlier, later]);
    expect(state.position).toBe(10n);
  });

  test('is looked for until the time is over, and the next time from there', async () => {
    const { state, end } = logAndTree(1_009n);
    const { promise, resolve } = Promise.withResolvers<void>();
    state.page = async (after) => void (after === 500n && (await promise));
    await expect(end.reached(20)).rejects.toThrow(LogNotRead);
    expect(state.reads).toEqual([0n, 500n]);
    resolve();
    await end.reached();
    expect([state.position, state.reads]).toEqual([1_000n, [0n, 500n, 1_000n]]);
  });

  test('is waited for by each only for its own time', async () => {
    const { state, end } = logAndTree(1_009n);
    const { promise, resolve } = Promise.withResolvers<void>();
    state.page = () => promise;
    const patient = end.reached();
    await expect(end.reached(20)).rejects.toThrow(LogNotRead);
    resolve();
    await patient;
    expect(state.timeouts.at(-1)).toBeLessThan(5_000);
  });

  test('is not reached if reading ends before it', async () => {
    const { state, end } = logAndTree(404n);
    state.reportedEnd = 1_009n;
    await expect(end.reached()).rejects.toThrow(StoreUnavailable);
    expect(state.reads).toEqual([0n, 404n]);
  });

  test('is found again in another log', async () => {
    const { state, end } = logAndTree(1_009n);
    await end.reached();
    Object.assign(state, { end: 20n, logId: 'other', position: 10n });
    await end.reached();
    expect(state.position).toBe(20n);
  });

  test('is found again after a restore from an older backup, in which another event is there', async () => {
    const { state, end } = logAndTree(1_009n);
    await end.reached();
    Object.assign(state, { end: 2_000n, position: 10n, gone: 1_009n });
    await expect(end.reached()).rejects.toThrow(LogReplaced);
    await end.reached();
    expect(state.position).toBe(2_000n);
  });
});
