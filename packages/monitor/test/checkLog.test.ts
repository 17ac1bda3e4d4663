import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leafHash } from '../../tlog/src/merkle/merkleTree.ts';
import { tileRoot } from '../../tlog/src/merkle/tiles.ts';
import type { TreeHead } from '../../tlog/src/merkle/treeHead.ts';
import { formatEntryBundle, parseEntryBundle } from '../../tlog/src/notes/entryBundle.ts';
import { openConsistencyProof } from '../../tlog/src/notes/proof.ts';
import { signCheckpoint } from '../../tlog/src/sign/signCheckpoint.ts';
import { keyNamed } from '../../tlog/test/notes/keys.ts';
import { NotChecked } from '../src/notChecked.ts';
import type { Received } from '../src/received.ts';
import { keep, keptCheckpoints, NEW_STATE } from '../src/state.ts';
import {
  ALL,
  alarmOf,
  check,
  checked,
  expectFork,
  forkOf,
  logOf,
  received,
  showing,
  signed,
  stateOf,
  stating,
  unavailable,
} from './checking.ts';
import { type FakeLog, ORIGIN, toEntry, VERIFIER_KEY } from './fakeLog.ts';

const someSize = fc.oneof(
  fc.constantFrom(1, 2, 3, 255, 256, 257, 511, 512, 513, 700),
  fc.integer({ min: 1, max: 700 }),
);

/** Alters what a log returns. */
function alter(log: FakeLog, method: 'tile' | 'entries', altered: (bytes: Uint8Array) => Uint8Array): void {
  const read: (...place: never[]) => Promise<Uint8Array> = log[method].bind(log);
  log[method] = async (...place: never[]) => altered(await read(...place));
}

describe('a log that grows', () => {
  test('is consistent, whatever its sizes, and each event is checked once', async () => {
    const sizes = fc.uniqueArray(someSize, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(sizes, async (unsorted) => {
        let state = NEW_STATE;
        for (const size of unsorted.sort((a, b) => a - b)) {
          const found = await checked(logOf(size), state);
          expect(found.added).toBe(size - (state.compared?.size ?? 0));
          state = found.state;
          expect(keptCheckpoints(state)).toMatchObject([{ origin: ORIGIN, ...logOf(size).head() }]);
        }
      }),
      { numRuns: 15 },
    );
  });

  test('is read only as far as necessary: new entries, and the tiles that prove consistency', async () => {
    const log = logOf(700);
    await checked(log, stateOf(logOf(600).head()));
    expect(log.read.sort()).toEqual(['0/2', '1/0', 'entries/2']);
    const unchanged = logOf(700);
    const { state } = await checked(logOf(700));
    expect((await checked(unchanged, state)).added).toBe(0);
    expect(unchanged.read).toEqual([]);
  });

  test('may be behind a proxy that responds with a page for a moment', async () => {
    const pages = ['Bad gateway.', '', '\x00'].map((page) => ({ checkpoint: async () => Buffer.from(page) }));
    const { slept, checkpoint } = await checked(showing([...pages, logOf(8)], logOf(8)));
    expect(checkpoint.size).toBe(8);
    expect(slept).toHaveLength(3);
  });

  test('may have instances that lag behind for a moment', async () => {
    const lagging = showing([logOf(6), logOf(6), logOf(8)], logOf(8));
    const { slept, state } = await checked(lagging, stateOf(logOf(7).head()));
    expect(keptCheckpoints(state)).toMatchObject([{ size: 8 }]);
    expect(slept).toEqual([1_000, 1_000]);
  });
});

describe('an alarm is raised', () => {
  test('by a split view: another server whose log differs in one byte, whatever the place and the sizes', async () => {
    const places = fc.tuple(someSize, someSize, fc.nat(699));
    await fc.assert(
      fc.asyncProperty(places, async ([seen, size, any]) => {
        const place = any % Math.min(seen, size);
        const alarm = await alarmOf(forkOf(size, place), stateOf(logOf(seen).head()));
        const expected = {
          fewer: `rollback: the log has signed ${seen} events, and now signs ${size}, `,
          same: `fork: the log has signed two roots of ${size} events`,
          more: `fork: the log has signed ${seen}:`,
        };
        const relation = size < seen ? 'fewer' : size === seen ? 'same' : 'more';
        expect(alarm.message).toMatch(expected[relation]);
        if (size >= seen) await expectFork(alarm);
      }),
      { numRuns: 15 },
    );
  });

  test('by a fork at once, since the log could hide it when the check is repeated', async () => {
    const { error, slept } = await check(forkOf(30, 5), stateOf(logOf(20).head()));
    expect(error).toMatchObject({ kind: 'fork' });
    expect(slept).toEqual([]);
  });

  test('by a rollback, whose checkpoint is compared with the tiles if the log still shows them', async () => {
    const state = stateOf(logOf(7).head());
    const { message, files } = await alarmOf(logOf(5), state);
    expect(message).toBe(
      'rollback: the log has signed 7 events, and now signs 5, and does not show whether they are the first of them',
    );
    expect(files).toEqual({
      'earlier.checkpoint': signed(logOf(7).head()),
      'received.checkpoint': signed(logOf(5).head()),
    });
    expect((await alarmOf(showing([logOf(5)], logOf(7)), state)).message).toBe(
      'rollback: the log has signed 7 events, and now signs 5, which are the first of them',
    );
    const fork = await alarmOf(showing([forkOf(5, 2)], logOf(7)), state);
    expect(fork.message).toMatch(/^fork: the log has signed 5:/);
    await expectFork(fork);
  });

  test('by a rollback to another log, which the partial tiles that were kept prove', async () => {
    const { state } = await checked(logOf(700));
    for (const [size, place] of [
      [699, 0],
      [513, 512],
      [512, 300],
    ] as const) {
      const fork = await alarmOf(forkOf(size, place), state);
      expect(fork.message).toMatch(`fork: the log has signed ${size}:`);
      await expectFork(fork);
      expect((await alarmOf(logOf(size), state)).message).toMatch(
        /^rollback: .*, which are the first of them$/,
      );
      // The largest checkpoint has tiles that were never shown.
      const larger = keep(state, received({ size: 705, root: leafHash('') }));
      await expectFork(await alarmOf(forkOf(size, place), larger));
    }
    expect((await alarmOf(logOf(300), state)).message).toMatch(/^rollback: .*, and does not show whether/);
  });

  test.each([
    [700, 300, 255],
    [700, 511, 0],
    [700, 257, 100],
    [512, 511, 0],
  ])(
    'by a rollback from %i to %i events whose event %i differs, by the full tiles before the last one',
    async (kept, size, place) => {
      const { state } = await checked(logOf(kept));
      const { message, files } = await alarmOf(forkOf(size, place), state);
      expect(message).toMatch(`fork: the log has signed ${size}:`);
      const [own, root] = [...message.matchAll(/256:([\da-f]{64})/g)].map(([, hash = '']) => hash);
      expect(own).not.toBe(root);
      const opened = (name: string, from = '') =>
        openConsistencyProof(files[name] as string, { size: 256, root: from }, VERIFIER_KEY);
      expect((await opened('consistency.proof', root)).size).toBe(kept);
      expect((await opened('consistency-smaller.proof', own)).size).toBe(size);
      const last = await alarmOf(forkOf(size, size - 1), state);
      expect(last.message).toMatch(/^rollback: .*, and does not show whether/);
    },
  );

  test('by two roots of one size, even if a kill prevented the alarm', async () => {
    const log = forkOf(300, 7);
    const { message } = await alarmOf(log, stateOf(logOf(300).head()));
    expect(message).toMatch(/^fork: the log has signed two roots of 300 events/);
    log.checkpoint = unavailable;
    await expectFork(await alarmOf(log, stateOf(logOf(300).head(), log.head())));
  });

  test('by an older root that is signed again, for its own size or a larger one', async () => {
    for (const [seen, root, size, alarm] of [
      [300, 300, 400, /^fork: the log has signed the root of 300 events again, for 400 events$/],
      [300, 299, 300, /^fork: the log has signed two roots of 300 events/],
      [300, 299, 400, /^mismatch: the tiles of 400 events have the root/],
      [256, 255, 512, /^mismatch: the tiles of 512 events/],
    ] as const) {
      const log = showing([stating({ ...logOf(root).head(), size })], logOf(size));
      expect((await alarmOf(log, stateOf(logOf(seen).head()))).message).toMatch(alarm);
    }
  });

  test('by a log that rewrites its past, and shows old tiles to hide it', async () => {
    const state = stateOf(logOf(300).head());
    for (const [checkpoint, tiles] of [
      [forkOf(400, 10), logOf(400)],
      [logOf(400), forkOf(400, 10)],
    ] as const)
      expect((await alarmOf(showing([checkpoint], tiles), state)).message).toMatch(
        /^mismatch: the tiles of 400 events have the root [\da-f]{64}, not [\da-f]{64}$/,
      );
  });

  test('by a false size, after a few tiles', async () => {
    const size = 2 ** 50;
    const root = tileRoot(Buffer.alloc(4 * 32, 1));
    const log = logOf(700);
    log.checkpoint = stating({ size, root }).checkpoint;
    const state = stateOf(logOf(600).head());
    expect((await check(log, state)).error).toBeInstanceOf(NotChecked);
    expect([...new Set(log.read)].sort()).toEqual(['0/2', '1/0', '6/0']); // the last two are of the 600 events
    log.tile = async (tile) => {
      log.read.push(`${tile.level}/${tile.index}`);
      return Buffer.alloc(tile.width * 32, 1); // the root is right, and the tiles below are made up
    };
    expect((await alarmOf(log, state)).message).toMatch(
      /^mismatch: tile\/\d\/000 does not have the hash 0101/,
    );
    expect(log.read.length).toBeLessThan(100); // in ten attempts
  });

  test.each<[string, (log: FakeLog) => void, RegExp, size?: number]>([
    [
      'an entry has another byte',
      (log) => {
        log.entries = (...place) => forkOf(400, 320).entries(...place);
      },
      /^mismatch: the entry at index 320 does not have its hash in the tree$/,
    ],
    [
      'an entry is missing',
      (log) => alter(log, 'entries', (bundle) => formatEntryBundle(parseEntryBundle(bundle).slice(1))),
      /^mismatch: tile\/entries\/001\.p\/144 has 143 entries, not 144$/,
    ],
    [
      'a bundle is cut off',
      (log) => alter(log, 'entries', (bundle) => bundle.subarray(0, -1)),
      /^mismatch: tile\/entries\/001\.p\/144 ends within an entry, or has more than 256$/,
    ],
    [
      'a tile is too short',
      (log) => alter(log, 'tile', (hashes) => hashes.subarray(32)),
      /^mismatch: tile\/\d\/00\d(\.p\/\d+)? has \d+ bytes, not \d+$/,
    ],
    [
      'a full tile has another byte',
      (log) =>
        alter(log, 'tile', (hashes) =>
          hashes.length === 256 * 32 ? Buffer.from(hashes).fill((hashes[0] as number) ^ 1, 0, 1) : hashes,
        ),
      /^mismatch: tile\/0\/001 does not have the hash [\da-f]{64}, which is in the tile above$/,
      512,
    ],
    [
      'each attempt gets the page of a proxy',
      (log) => {
        log.checkpoint = async () => Buffer.from('Bad gateway.');
      },
      /^invalid checkpoint: the text is not a signed note$/,
    ],
    [
      'the checkpoint is signed with another key',
      (log) => {
        const forged = signCheckpoint(log.head(), { origin: ORIGIN, key: keyNamed('other') });
        log.checkpoint = async () => Buffer.from(forged);
      },
      /^invalid checkpoint: there is no signature of plants\.example\/log\+/,
    ],
    [
      'the checkpoint is not text',
      (log) => {
        log.checkpoint = async () => Buffer.of(0, 255);
      },
      /^invalid checkpoint: the text is not UTF-8$/,
    ],
  ])('if %s', async (_, lie, alarm, size = 400) => {
    const log = logOf(size);
    lie(log);
    const { message, files } = await alarmOf(log, stateOf(logOf(300).head()));
    expect(message).toMatch(alarm);
    expect(files['received.checkpoint']).toBe(`${await log.checkpoint()}`);
    const path = message.match(/tile\/\S+|(?<=entry at index )320/)?.[0].replaceAll('/', '-');
    if (path) expect(Object.keys(files)).toContain(path === '320' ? 'tile-entries-001.p-144' : path);
  });
});

test.each([0, 255, 257])(
  'a full bundle has 256 entries, not the %i that the log has signed',
  async (count) => {
    const log = logOf(512);
    const bundle = Array.from({ length: count }, (_, i) => Buffer.from(toEntry(257 + i)));
    const signedTile = Buffer.from(
      [ALL.slice(0, 256), bundle]
        .map((all) => tileRoot(Buffer.from(all.map((entry) => leafHash(entry)).join(''), 'hex')))
        .join(''),
      'hex',
    );
    const { tile, entries: read } = log;
    log.tile = async (wanted) => (wanted.level === 1 ? signedTile : tile.call(log, wanted));
    log.entries = async (index, width) =>
      index === 1 ? formatEntryBundle(bundle) : read.call(log, index, width);
    log.checkpoint = stating({ size: 512, root: tileRoot(signedTile) }).checkpoint;
    expect((await alarmOf(log)).message).toMatch(/^mismatch: tile\/0\/001 does not have the hash/);
  },
);

const flipped = (bytes: Uint8Array): Uint8Array => Buffer.from(bytes).fill((bytes[9] as number) ^ 1, 9, 10);

describe.each(['tile', 'entries'] as const)('a carrier that alters a response of each kind: %s', (method) => {
  test('is a notice, since the check passes when it is repeated', async () => {
    const log = logOf(700);
    const read: (...place: never[]) => Promise<Uint8Array> = log[method].bind(log);
    let requests = 0;
    log[method] = async (...place: never[]) =>
      requests++ === 0 ? flipped(await read(...place)) : read(...place);
    const { found, notices, slept } = await check(log, stateOf(logOf(300).head()));
    expect(found?.checkpoint.size).toBe(700);
    expect(notices).toEqual([
      expect.stringMatching(/^the check has passed when it was repeated, after mismatch: /),
    ]);
    expect(slept).toEqual([1_000]);
  });

  test('each time is an alarm after five attempts, with the last response', async () => {
    const log = logOf(700);
    let requests = 0;
    const read: (...place: never[]) => Promise<Uint8Array> = log[method].bind(log);
    log[method] = async (...place: never[]) => Buffer.from(await read(...place)).fill(requests++, 9, 10);
    const { error, notices, slept } = await check(log, stateOf(logOf(300).head()));
    expect(error).toMatchObject({ kind: 'mismatch' });
    expect(notices).toEqual([]); // the alarm says it
    expect(slept).toHaveLength(4);
  });
});

test('an attempt without a response does not hide an alarm that follows', async () => {
  const log = logOf(400);
  const { checkpoint } = log;
  let requests = 0;
  log.checkpoint = () => (requests++ === 1 ? unavailable() : checkpoint.call(log));
  log.entries = async (...place) => forkOf(400, 320).entries(...place);
  expect((await alarmOf(log)).message).toMatch(/^mismatch: the entry at index 320 /);
});

test('a tile that was damaged in the state is read from the log', async () => {
  const { state } = await checked(logOf(300));
  const tiles = new Map([...state.tiles].map(([path, tile]) => [path, flipped(tile)]));
  expect((await check(logOf(300), { ...state, tiles }, { all: true })).error).toBeUndefined();
});

test('an event that is altered after it was checked is found when all are checked again', async () => {
  const [log, altered] = [logOf(300), forkOf(300, 7)];
  log.entries = (index, width) => altered.entries(index, width);
  const { state } = await checked(logOf(300));
  expect((await check(log, state)).error).toBeUndefined();
  expect((await check(logOf(310), state, { all: true })).found).toMatchObject({ added: 10, again: 300 });
  expect((await check(log, state, { all: true })).error).toMatchObject({
    message: 'mismatch: the entry at index 7 does not have its hash in the tree',
  });
});

test('an unavailable log is not an alarm, at any request', async () => {
  for (const method of ['checkpoint', 'tile', 'entries'] as const) {
    const log = logOf(400);
    log[method] = unavailable;
    expect((await check(log, stateOf(logOf(300).head()))).error).toBeInstanceOf(NotChecked);
  }
});

describe('a checkpoint whose tiles the log does not show', () => {
  const hidden = (log: FakeLog): FakeLog => {
    log.tile = unavailable;
    return log;
  };

  const kept = (...heads: TreeHead[]) => heads.map((head) => expect.objectContaining(head));

  test('is kept, before anything else is fetched, until a compared tree includes it', async () => {
    const one = await check(hidden(logOf(400)), stateOf(logOf(300).head()));
    expect(one.error).toBeInstanceOf(NotChecked);
    expect(one.last).toMatchObject({ compared: logOf(300).head(), first: logOf(400).head() });
    const same = await check(hidden(logOf(400)), one.last);
    expect(same.last).toBe(one.last);
    const two = await check(hidden(logOf(500)), one.last);
    expect(two.last).toMatchObject({ first: logOf(400).head(), largest: logOf(500).head() });
    const shown = await checked(logOf(700), two.last);
    expect(shown.added).toBe(400);
    expect(keptCheckpoints(shown.state)).toEqual(kept(logOf(700).head()));
  });

  test('is not replaced by larger, true ones, so that its fork is found', async () => {
    let state = stateOf(logOf(300).head());
    for (const log of [forkOf(400, 350), logOf(450), logOf(500)])
      state = (await check(hidden(log), state)).last;
    expect(keptCheckpoints(state)).toEqual(
      kept(logOf(300).head(), forkOf(400, 350).head(), logOf(500).head()),
    );
    const fork = await alarmOf(logOf(600), state);
    expect(fork.message).toMatch(/^fork: the log has signed 400:/);
    await expectFork(fork);
  });

  test('is followed by the largest one, once a compared tree includes it', async () => {
    const state = stateOf(logOf(300).head(), logOf(400).head(), forkOf(500, 450).head());
    const ahead = { ...state, largest: { ...(state.largest as Received), mayBeAhead: true } };
    const { last } = await check(logOf(420), ahead);
    const { state: next } = await checked(logOf(420), ahead);
    expect(last.first).toMatchObject(logOf(400).head());
    expect(next).toMatchObject({ compared: logOf(420).head(), first: forkOf(500, 450).head() });
    await expectFork(await alarmOf(logOf(600), (await check(hidden(logOf(550)), next)).last));
  });

  test('is compared with a smaller one by its own tiles, also while a witness has shown a larger one', async () => {
    const ahead = { ...received(logOf(500).head()), mayBeAhead: true };
    const state = keep(stateOf(logOf(300).head(), logOf(400).head()), ahead);
    await expectFork(await alarmOf(showing([forkOf(350, 320)], logOf(400)), state));
  });

  test('must be the beginning of a later checkpoint, and not be larger', async () => {
    const state = stateOf(logOf(300).head(), forkOf(400, 350).head());
    const fork = await alarmOf(logOf(500), state);
    expect(fork.message).toMatch(/^fork: the log has signed 400:/);
    await expectFork(fork);
    expect((await alarmOf(logOf(400), state)).message).toMatch(/^fork: the log has signed two roots of 400/);
    expect((await alarmOf(logOf(399), state)).message).toMatch(
      /^rollback: the log has signed 400 events, and now signs 399/,
    );
    const smaller = stateOf(logOf(300).head(), forkOf(200, 0).head());
    await expectFork(await alarmOf(logOf(300), smaller));
  });
});
