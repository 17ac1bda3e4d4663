import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Alarm, checkLog } from '../../src/monitor/checkLog.ts';
import { LogUnavailable } from '../../src/monitor/logClient.ts';
import type { TreeHead } from '../../src/transparency/checkpoint.ts';
import { signCheckpoint } from '../../src/transparency/signCheckpoint.ts';
import { keyNamed } from '../transparency/keys.ts';
import { entries, entryOf, FakeLog, KEY, NOW, ORIGIN, VERIFIER_KEY } from './fakeLog.ts';

/** What a monitor finds that has checked the first log, and then sees this one. */
async function check(log: FakeLog, earlier?: TreeHead) {
  const problems: string[] = [];
  const slept: number[] = [];
  const checked = checkLog({
    client: log,
    key: VERIFIER_KEY,
    earlier,
    now: () => NOW,
    sleep: async (ms) => void slept.push(ms),
    onProblem: (problem) => problems.push(problem),
  });
  return { ...(await checked), problems, slept };
}

/** The message of the alarm, or what else it finds. */
async function alarmOf(log: FakeLog, earlier?: TreeHead): Promise<string> {
  try {
    const { added } = await check(log, earlier);
    return `${added} added`;
  } catch (error) {
    expect(error).toBeInstanceOf(Alarm);
    expect((error as Alarm).checkpoint).toEqual(await log.checkpoint());
    return (error as Alarm).message;
  }
}

const ALL = entries(700);
const logOf = (size: number): FakeLog => new FakeLog(ALL.slice(0, size));
/** The same events, except for one whose name has another byte. */
const forkOf = (size: number, place: number): FakeLog =>
  new FakeLog(ALL.slice(0, size).with(place, entryOf(place + 1, { name: 'Fren' })));

const someSize = fc.oneof(
  fc.constantFrom(1, 2, 3, 255, 256, 257, 511, 512, 513, 700),
  fc.integer({ min: 1, max: 700 }),
);

describe('a log that grows', () => {
  test('is consistent, whatever its sizes, and each event is checked once', async () => {
    const sizes = fc.uniqueArray(someSize, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(sizes, async (unsorted) => {
        let earlier: TreeHead | undefined;
        for (const size of unsorted.sort((a, b) => a - b)) {
          const { checkpoint, added, problems } = await check(logOf(size), earlier);
          expect(checkpoint).toEqual({ origin: ORIGIN, ...logOf(size).head() });
          expect(added).toBe(size - (earlier?.size ?? 0));
          expect(problems).toEqual([]);
          earlier = checkpoint;
        }
      }),
      { numRuns: 30 },
    );
  });

  test('is read only as far as necessary: what has not changed, and what is new', async () => {
    const log = logOf(700);
    await check(log, logOf(600).head());
    expect([...new Set(log.read)].sort()).toEqual(['0/2', '1/0', 'entries/2']);
    const unchanged = logOf(700);
    expect((await check(unchanged, logOf(700).head())).added).toBe(0);
    expect(unchanged.read).toEqual([]);
  });

  test('may be empty', async () => {
    expect(await check(logOf(0))).toMatchObject({ added: 0, checkpoint: { size: 0 } });
    expect(await check(logOf(3), logOf(0).head())).toMatchObject({ added: 3 });
  });
});

describe('an alarm is raised', () => {
  test('by a split view: another server whose log differs in one byte, whatever the place and the sizes', async () => {
    const places = fc.tuple(someSize, someSize, fc.nat(699));
    await fc.assert(
      fc.asyncProperty(places, async ([seen, size, any]) => {
        const place = any % Math.min(seen, size);
        const alarm = await alarmOf(forkOf(size, place), logOf(seen).head());
        if (size < seen)
          expect(alarm).toBe(`rollback: the log has signed ${seen} events, and now signs ${size}`);
        else if (size === seen)
          expect(alarm).toBe(`split view: the log has signed two different histories of ${size} events`);
        else
          expect(alarm).toBe(`fork: the first ${seen} events are not those that the log has signed before`);
      }),
      { numRuns: 60 },
    );
  });

  test('by a rollback, but not if another instance lags behind for a moment', async () => {
    expect(await alarmOf(logOf(5), logOf(7).head())).toBe(
      'rollback: the log has signed 7 events, and now signs 5',
    );
    const lagging = logOf(8);
    const older = await logOf(6).checkpoint();
    const latest = await lagging.checkpoint();
    const received = [older, older, latest];
    lagging.checkpoint = async () => received.shift() ?? latest;
    const { checkpoint, slept } = await check(lagging, logOf(7).head());
    expect(checkpoint.size).toBe(8);
    expect(slept).toEqual([1_000, 1_000]);
  });

  test('by a removed event, and by an inserted one', async () => {
    const seen = logOf(300).head();
    for (const place of [0, 128, 255, 256, 299]) {
      const removed = new FakeLog(ALL.toSpliced(place, 1).slice(0, 400));
      expect(await alarmOf(removed, seen)).toMatch(/^fork: the first 300 events/);
      const inserted = new FakeLog(ALL.toSpliced(place, 0, entryOf(900)).slice(0, 300));
      expect(await alarmOf(inserted, seen)).toMatch(/^split view: .* 300 events/);
      const shorter = new FakeLog(ALL.slice(0, 300).toSpliced(place, 1));
      expect(await alarmOf(shorter, seen)).toMatch(/^rollback: /);
    }
  });

  test('by an older root that is signed again, with its own size or a larger one', async () => {
    for (const [seen, size] of [
      [300, 400],
      [300, 300],
      [256, 512],
      [3, 5],
    ] as const) {
      const log = logOf(size);
      const resigned = { ...log.head(seen - 1), size };
      log.checkpoint = async () => Buffer.from(signCheckpoint(resigned, { origin: ORIGIN, key: KEY }));
      expect(await alarmOf(log, logOf(seen).head())).toMatch(
        size === seen ? /^split view: / : /^false tiles: the events do not have the root/,
      );
    }
  });

  test('by a log that rewrites its past, and shows old tiles to hide it', async () => {
    const [honest, rewritten] = [logOf(400), forkOf(400, 10)];
    rewritten.tile = (tile) => honest.tile(tile);
    expect(await alarmOf(rewritten, logOf(300).head())).toBe(
      'false tiles: the events do not have the root that the log signs',
    );
    const mixed = forkOf(400, 10);
    mixed.checkpoint = () => honest.checkpoint();
    expect(await alarmOf(mixed, logOf(300).head())).toMatch(/^false tiles: they do not have the root/);
  });

  test.each<[string, (log: FakeLog) => void, RegExp]>([
    [
      'an entry has another byte',
      (log) => {
        const other = forkOf(400, 320);
        log.entries = (index, width) => other.entries(index, width);
      },
      /^false entries: event 321 is not the one in the log's tree$/,
    ],
    [
      'two entries are swapped',
      (log) => {
        const swapped = new FakeLog([
          ...ALL.slice(0, 350),
          ALL[351] as string,
          ALL[350] as string,
          ...ALL.slice(352),
        ]);
        log.entries = (index, width) => swapped.entries(index, width);
      },
      /^false entries: event 351 is not/,
    ],
    [
      'an entry is missing',
      (log) => {
        const { entries: read } = log;
        log.entries = (index, width) => read.call(log, index, width - 1);
      },
      /^false entries: tile\/entries\/001\.p\/144 has 143 entries$/,
    ],
    [
      'a bundle is cut off',
      (log) => {
        const { entries: read } = log;
        log.entries = async (index, width) => (await read.call(log, index, width)).subarray(0, -1);
      },
      /^false entries: a bundle of entries ends within an entry$/,
    ],
    [
      'a tile is too short',
      (log) => {
        const { tile } = log;
        log.tile = async (wanted) => (await tile.call(log, wanted)).subarray(32);
      },
      /^false tiles: tile\/\d\/000(\.p\/\d+)? has \d+ bytes$/,
    ],
    [
      'a tile has another byte',
      (log) => {
        const { tile } = log;
        log.tile = async (wanted) => {
          const hashes = Buffer.from(await tile.call(log, wanted));
          hashes.writeUInt8(hashes.readUInt8(0) ^ 1, 0);
          return hashes;
        };
      },
      /^false tiles: they do not have the root that the log signs$/,
    ],
    [
      'the checkpoint is signed with another key',
      (log) => {
        const forged = signCheckpoint(log.head(), { origin: ORIGIN, key: keyNamed('other') });
        log.checkpoint = async () => Buffer.from(forged);
      },
      /^false checkpoint: no signature is by plants\.example\/log\+/,
    ],
    [
      'the checkpoint is of another log',
      (log) => {
        const other = signCheckpoint(log.head(), { origin: 'other.example', key: keyNamed('log') });
        log.checkpoint = async () => Buffer.from(other);
      },
      /^false checkpoint: no signature is by/,
    ],
    [
      'the checkpoint is not text',
      (log) => {
        log.checkpoint = async () => Buffer.of(0, 255);
      },
      /^false checkpoint: the text is not UTF-8$/,
    ],
  ])('if %s', async (_, lie, alarm) => {
    const log = logOf(400);
    lie(log);
    expect(await alarmOf(log, logOf(300).head())).toMatch(alarm);
  });
});

test('a log that is unavailable is no alarm, at whatever request', async () => {
  const unavailable = async () => {
    throw new LogUnavailable('503');
  };
  for (const method of ['checkpoint', 'tile', 'entries'] as const) {
    const log = logOf(400);
    log[method] = unavailable;
    await expect(check(log, logOf(300).head())).rejects.toThrow(LogUnavailable);
  }
});

describe('events that this service cannot have appended are reported', () => {
  test.each([
    [
      'in the future',
      entryOf(4, { at: '2026-06-01T00:05:01Z' }),
      'it occurs in the future, at 2026-06-01T00:05:01Z',
    ],
    ['before those before it', entryOf(4, { at: '2025-12-31T23:57:00Z' }), 'long before the event before it'],
    ['without a name', entryOf(4).replace('"name":"Fern",', ''), 'its data is not that of a PlantCreated'],
    [
      'with another member',
      entryOf(4).replace('"user"', '"note":"","user"'),
      'its data has the unknown member "note"',
    ],
    [
      'in the stream of another plant',
      entryOf(4).replace('/4"', '/5"'),
      'it is in the stream "plant-alice/5"',
    ],
    ['at another revision', entryOf(4).replace('"0"', '"1"'), 'it is a PlantCreated at revision 1'],
    [
      'without metadata',
      entryOf(4).replace(/"metadata":.*?},/, ''),
      'its metadata is not that of a PlantCreated',
    ],
    [
      'that is not canonical',
      entryOf(4).replace('{"data"', '{ "data"'),
      'it is not an event in canonical form',
    ],
    ['that is not JSON', Buffer.of(255), 'an entry of 1 bytes: it is not an event in canonical form'],
    ['too large for an entry', '{"sha256":"00"}', 'it is not an event in canonical form, or too large'],
  ])('%s', async (_, event, problem) => {
    const log = new FakeLog([...entries(3), event, ...entries(6).slice(4)]);
    for (const seen of [0, 3]) {
      const { problems, added } = await check(log, log.head(seen));
      expect(added).toBe(6 - seen);
      expect(problems).toEqual([expect.stringMatching(/^event 4, /)]);
      expect(problems[0]).toContain(problem);
    }
    expect((await check(log, log.head(4))).problems).toEqual([]); // reported once
  });

  test('but not if clocks differ by a few minutes, nor of unknown types', async () => {
    const times = ['2026-06-01T00:04:59Z', '2026-06-01T00:00:30Z', '2026-06-01T00:04:00.000+00:00'];
    const later = times.map((at, i) => entryOf(i + 4, { at }));
    const unknown = entryOf(9).replace('PlantCreated', 'PlantWatered');
    expect((await check(new FakeLog([...entries(3), ...later, unknown]))).problems).toEqual([]);
  });
});
