import { describe, expect, test } from 'vitest';
import { openPolicy, type Policy } from '../../tlog/src/witness/policy.ts';
import { witnessKey } from '../../tlog/test/witness/cosign.ts';
import { NotChecked } from '../src/notChecked.ts';
import type { Received } from '../src/received.ts';
import { keptCheckpoints, NEW_STATE, type State } from '../src/state.ts';
import {
  alarmOf,
  check,
  checked,
  expectFork,
  forkOf,
  logOf,
  showing,
  signed,
  stateOf,
  unavailable,
} from './checking.ts';
import { cosigned, type FakeLog, NOW } from './fakeLog.ts';

const NAMES = ['w1.example', 'w2.example', 'w3.example'];
const HOUR_MS = 3_600_000;
const URL = 'https://witness.example';

const policyOf = (names: readonly string[] = NAMES, quorum?: string): Policy =>
  openPolicy(
    { witness: names.map((name) => `${witnessKey(name)} ${URL}/${name}`), ...(quorum ? { quorum } : {}) },
    () => {},
  ) as Policy;

/** A log whose checkpoint has cosignatures. */
function cosignedBy(log: FakeLog, names: readonly string[], secondsAgo = 0): FakeLog {
  const note = cosigned(signed(log.head()), names, secondsAgo);
  log.checkpoint = async () => Buffer.from(note);
  return log;
}

/** Options of a monitor whose witnesses show these checkpoints, by name. */
const witnessing = (shown: { [name: string]: string | NotChecked }, policy = policyOf()) => ({
  policy,
  witnessCheckpoint: async (url: string) => {
    const note = shown[url.slice(URL.length + 1)];
    if (typeof note !== 'string') throw note ?? new NotChecked('404', true);
    return Buffer.from(note);
  },
});

test('a witness whose key this version of Node cannot verify is named once, and not counted', () => {
  const witness = NAMES.map(witnessKey);
  const lines: string[] = [];
  const open = (unverifiable: readonly string[]) =>
    openPolicy(
      { witness },
      (line) => lines.push(line),
      ({ name }) => !unverifiable.includes(name),
    );
  const policy = open(['w2.example']);
  expect(policy?.witnesses.map(({ key }) => key.name)).toEqual(['w1.example', 'w3.example']);
  expect(policy?.quorum).toBe(2);
  expect(lines).toEqual([
    expect.stringMatching(/^the witness w2\.example is not counted: Node \S+ cannot verify/),
  ]);
  expect(() => open(['w1.example', 'w2.example'])).toThrow(
    /^the quorum of 2 cannot be reached with 1 witnesses; ML-DSA-44 requires Node 24\.6 or later\.$/,
  );
});

describe('a checkpoint that too few witnesses have signed', () => {
  test('is an alarm after some retries, unless one of them has more cosignatures', async () => {
    const policy = policyOf();
    const few = cosignedBy(logOf(7), ['w2.example', 'other.example']);
    const { error, slept, last } = await check(few, NEW_STATE, { policy });
    expect(error).toMatchObject({
      kind: 'not cosigned',
      message:
        'not cosigned: the checkpoint of 7 events cannot be relied on: it has 1 of 2 required cosignatures',
      evidence: [{ name: 'received.checkpoint', content: await few.checkpoint() }],
    });
    expect(slept).toHaveLength(4);
    expect(last.first).toMatchObject(few.head());
    const enough = cosignedBy(logOf(8), ['w2.example', 'w1.example', 'other.example'], 90);
    const checkpoint = enough.checkpoint;
    let requests = 0;
    enough.checkpoint = () => (++requests < 3 ? few.checkpoint() : checkpoint());
    const { found } = await check(enough, NEW_STATE, { policy });
    expect(found).toMatchObject({
      checkpoint: { size: 8 },
      cosignedAt: NOW.getTime() / 1_000 - 90,
    });
  });

  test('is an alarm if a cosignature is invalid, even with a quorum of valid ones', async () => {
    const log = cosignedBy(logOf(7), NAMES);
    const other = cosigned(signed(logOf(6).head()), ['w1.example'])
      .split('\n')
      .at(-2);
    const forged = `${await log.checkpoint()}${other}\n`;
    log.checkpoint = async () => Buffer.from(forged);
    expect((await alarmOf(log, NEW_STATE, { policy: policyOf() })).message).toBe(
      'not cosigned: the checkpoint of 7 events cannot be relied on: the cosignature of w1.example is invalid',
    );
  });

  test('proves a fork first, if its tiles show one', async () => {
    const fork = await alarmOf(forkOf(8, 2), stateOf(logOf(7).head()), { policy: policyOf() });
    expect(fork.message).toMatch(/^fork: /);
    await expectFork(fork);
  });
});

test('the state has the newest cosignatures of a checkpoint', async () => {
  const { found } = await check(cosignedBy(logOf(7), NAMES, 60), NEW_STATE, { policy: policyOf() });
  const again = cosignedBy(logOf(7), NAMES, 10);
  const later = await check(again, found?.state, { policy: policyOf() });
  expect(later.found?.checkpoint.note).toBe(`${await again.checkpoint()}`);
  expect(again.read).toEqual([]);
});

test('an instance that gets its cosignatures later is not a rollback, as long as no quorum has signed since', async () => {
  const options = { policy: policyOf(NAMES, '1') };
  const behind = (shown: FakeLog, secondsAgo = 86_400) =>
    showing([cosignedBy(logOf(7), NAMES, secondsAgo)], shown);
  const state = stateOf(logOf(9).head());
  const { error } = await check(behind(logOf(9)), state, options);
  expect(error).toBeInstanceOf(NotChecked);
  expect((error as Error).message).toMatch(
    /^the log shows 7:\w+ with its cosignatures, and has signed 9:\w+ before$/,
  );
  expect((await alarmOf(behind(logOf(9), 86_000), state, options)).message).toMatch(/^rollback: /);
  expect((await alarmOf(behind(logOf(7)), state, options)).message).toMatch(
    /^rollback: .*, and does not show whether/,
  );
  // What witnesses say about it is judged all the same.
  const old = { ...options, staleAfterMs: HOUR_MS };
  const hidden = logOf(9);
  hidden.tile = unavailable;
  for (const tiles of [logOf(9), hidden])
    expect((await alarmOf(behind(tiles, 3_601), state, old)).message).toMatch(/^stale: the checkpoint of 7/);
});

test('an instance that has not read its tree yet is not a rollback', async () => {
  const starting = logOf(7);
  starting.tile = unavailable;
  const { error } = await check(starting, stateOf(logOf(9).head()));
  expect(error).toEqual(new NotChecked('503'));
});

test('a log that does not serve tiles cannot hide a fork that stored tiles show', async () => {
  for (const [before, after] of [
    [20, 15],
    [600, 590],
  ] as const) {
    const { state } = await checked(logOf(before));
    const fork = forkOf(after, 7);
    fork.tile = unavailable;
    await expectFork(await alarmOf(fork, state));
  }
});

describe('a log is stale', () => {
  const alarm = (log: FakeLog, options: object, state?: State) =>
    alarmOf(log, state, { staleAfterMs: HOUR_MS, ...options });

  test('if the cosignatures of a quorum are old, whatever a single witness says', async () => {
    const log = cosignedBy(logOf(7), ['w1.example', 'w2.example'], 3_601);
    const old = `${await log.checkpoint()}`;
    log.checkpoint = async () => Buffer.from(cosigned(old, ['w3.example'], -1_000_000));
    expect((await alarm(log, { policy: policyOf() })).message).toBe(
      'stale: the checkpoint of 7 events was last signed by a quorum of witnesses at 2026-05-31T22:59:59.000Z, longer ago than --stale-after allows',
    );
    const options = { staleAfterMs: HOUR_MS, policy: policyOf() };
    for (const secondsAgo of [3_600, -300]) {
      const fresh = cosignedBy(logOf(7), ['w1.example', 'w2.example'], secondsAgo);
      expect((await check(fresh, stateOf(logOf(7).head()), options)).error).toBeUndefined();
    }
    const ahead = cosignedBy(logOf(7), ['w1.example', 'w2.example'], -301);
    expect((await alarm(ahead, { policy: policyOf() })).message).toMatch(
      /^not cosigned: .* 0 of 2 .*, and 2 whose time is in the future$/,
    );
  });

  test('if it has not grown and growth is expected, with or without witnesses', async () => {
    const state = stateOf(logOf(7).head());
    const message =
      'stale: the log has had 7 events since 2026-05-31T00:00:00.000Z, longer ago than --stale-after allows';
    expect((await alarm(logOf(7), { expectGrowth: true }, state)).message).toBe(message);
    expect((await check(logOf(7), state, { staleAfterMs: HOUR_MS })).error).toBeUndefined();
    const log = cosignedBy(logOf(7), NAMES);
    const policy = policyOf();
    expect((await alarm(log, { policy, expectGrowth: true }, state)).message).toBe(message);
    expect((await check(log, state, { policy, staleAfterMs: HOUR_MS })).error).toBeUndefined();
    const grown = { staleAfterMs: HOUR_MS, expectGrowth: true };
    expect((await check(logOf(8), state, grown)).error).toBeUndefined();
  });

  test('if it has not grown since a clock was ahead', async () => {
    const state = stateOf(logOf(7).head());
    const compared = { ...state.compared, receivedAt: '2036-01-01T00:00:00.000Z' } as Received;
    const { last } = await check(logOf(7), { ...state, compared });
    const now = () => new Date(NOW.getTime() + HOUR_MS + 1);
    expect((await alarm(logOf(7), { now, expectGrowth: true }, last)).message).toMatch(
      /^stale: the log has had 7 events since 2026-06-01T00:00:00.000Z/,
    );
  });
});

describe('the checkpoint that a witness shows', () => {
  const shownBy = (log: FakeLog, name = 'w1.example') => cosigned(signed(log.head()), [name]);

  test('is a notice if it is unavailable, or not signed by the log and the witness', async () => {
    const log = cosignedBy(logOf(7), NAMES);
    const options = witnessing({
      'w1.example': signed(log.head()),
      'w2.example': cosigned(signed(log.head()).replace('\n7\n', '\n8\n'), ['w2.example']),
      'w3.example': new NotChecked('503'),
    });
    const { error, notices } = await check(log, NEW_STATE, options);
    expect(error).toBeUndefined();
    expect(notices.toSorted()).toEqual([
      'the witness w1.example is unavailable: its checkpoint does not have its cosignature',
      'the witness w2.example is unavailable: the signature of plants.example/log is invalid',
      'the witness w3.example is unavailable: 503',
    ]);
  });

  test('may be larger, as long as the log shows its tiles, and must stay consistent', async () => {
    const log = cosignedBy(logOf(7), NAMES);
    const tiles = logOf(9);
    log.tile = tiles.tile.bind(tiles);
    const options = witnessing({ 'w1.example': shownBy(logOf(9)) });
    const first = await check(log, NEW_STATE, options);
    expect(first.error).toBeUndefined();
    expect(first.found?.state).toMatchObject({ compared: { size: 7 }, first: { size: 9 } });
    const rewritten = cosignedBy(forkOf(12, 8), NAMES);
    await expectFork(await alarmOf(rewritten, first.found?.state, { policy: policyOf() }));
    const grown = await check(cosignedBy(logOf(12), NAMES), first.found?.state, { policy: policyOf() });
    expect(keptCheckpoints(grown.found?.state ?? NEW_STATE)).toMatchObject([{ size: 12 }]);
    const lost = cosignedBy(logOf(7), NAMES);
    const other = forkOf(9, 3);
    lost.tile = other.tile.bind(other);
    expect((await alarmOf(lost, first.found?.state, { policy: policyOf() })).message).toMatch(/^mismatch: /);
  });

  test('stays pending, with a notice, until the log serves its tiles; a single failure is not a rollback', async () => {
    const log = cosignedBy(logOf(7), NAMES);
    const options = witnessing({ 'w1.example': shownBy(logOf(700)) }, policyOf(['w1.example']));
    const { error, notices, found, slept } = await check(log, NEW_STATE, options);
    expect({ error, slept }).toEqual({ error: undefined, slept: [] });
    expect(notices).toEqual([
      expect.stringMatching(
        /^the log has yet to show what it signed in 700:\S+ \(shown by w1.example\): 404$/,
      ),
    ]);
    expect(found?.state.first).toMatchObject({ size: 700, shownBy: 'shown by w1.example' });
    // Once the log has shown it, it must show it again.
    const shown = await check(cosignedBy(logOf(700), NAMES), found?.state, options);
    expect(keptCheckpoints(shown.found?.state ?? NEW_STATE)).toMatchObject([{ size: 700 }]);
    expect((await alarmOf(log, shown.found?.state, options)).message).toMatch(/^rollback: /);
  });

  test('is no notice if the witness serves none', async () => {
    const { notices } = await check(cosignedBy(logOf(7), NAMES), NEW_STATE, witnessing({}));
    expect(notices).toEqual([]);
  });

  test('is an alarm if the log shows fewer events for longer than --stale-after, or not its tiles', async () => {
    const options = {
      ...witnessing({ 'w1.example': shownBy(logOf(9)) }, policyOf(['w1.example'])),
      staleAfterMs: HOUR_MS,
    };
    const later = { ...options, now: () => new Date(+NOW + HOUR_MS + 1) };
    const cosignedLater = (log: FakeLog) => cosignedBy(log, NAMES, -HOUR_MS / 1_000);
    const { found } = await check(cosignedBy(logOf(7), NAMES), NEW_STATE, options);
    const shown = cosignedLater(logOf(7));
    shown.tile = (tile) => logOf(9).tile(tile);
    for (const log of [cosignedLater(logOf(7)), shown]) {
      const { message, files } = await alarmOf(log, found?.state, later);
      expect(message).toMatch(
        /^withheld: the log has signed 9:\S+ \(shown by w1.example\), known since 2026-06-01T00:00:00.000Z, and now shows 7 events/,
      );
      expect(Object.keys(files)).toEqual(['earlier.checkpoint', 'received.checkpoint']);
    }
  });
});

describe('two views that a log shows to two monitors', () => {
  const one = (size: number) => logOf(size);
  const two = (size: number) => forkOf(size, 5);

  test('are both caught, if the witness that both ask has signed both', async () => {
    const common = stateOf(logOf(5).head());
    const policy = policyOf(['w1.example']);
    for (const [view, size, other] of [
      [one, 12, two(9)],
      [two, 12, one(9)],
      [one, 9, two(9)],
      [two, 9, one(9)],
    ] as const) {
      const options = witnessing({ 'w1.example': cosigned(signed(other.head()), ['w1.example']) }, policy);
      const log = cosignedBy(view(size), ['w1.example']);
      const alarm = await alarmOf(log, common, options);
      expect(alarm.message).toMatch(/^fork: .*\(shown by w1.example\)/);
      await expectFork(alarm);
    }
  });

  test('are both detected if the view of the witness is larger: at once, or when the own view grows', async () => {
    const policy = policyOf(['w1.example']);
    for (const [view, other] of [
      [one, two(12)],
      [two, one(12)],
    ] as const) {
      const options = witnessing({ 'w1.example': cosigned(signed(other.head()), ['w1.example']) }, policy);
      const first = await check(cosignedBy(view(9), ['w1.example']), NEW_STATE, options);
      expect(first.error).toBeUndefined();
      expect(first.notices).toHaveLength(1);
      await expectFork(await alarmOf(cosignedBy(view(14), ['w1.example']), first.found?.state, { policy }));
      const hidden = cosignedBy(view(12), ['w1.example']);
      hidden.tile = unavailable;
      await expectFork(await alarmOf(hidden, first.found?.state, { policy }));
    }
  });

  test('need not both be signed: the monitor whose view the witness has not signed finds the fork', async () => {
    const policy = policyOf(['w1.example']);
    const options = witnessing({ 'w1.example': cosigned(signed(one(9).head()), ['w1.example']) }, policy);
    expect((await check(cosignedBy(one(9), ['w1.example']), NEW_STATE, options)).error).toBeUndefined();
    await expectFork(await alarmOf(two(12), NEW_STATE, options));
    expect((await alarmOf(two(8), NEW_STATE, options)).message).toMatch(/^not cosigned: /);
  });
});
