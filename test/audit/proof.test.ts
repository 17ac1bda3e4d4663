import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { canonical, leafText } from '../../src/audit/leaf.ts';
import {
  type ConsistencyProof,
  checkProof,
  type InclusionProof,
  NotProven,
  type Proof,
  proveConsistency,
  proveInclusion,
  rootOfLog,
} from '../../src/audit/proof.ts';
import { copyLog } from '../../src/copy/copyLog.ts';
import { type EventLog, type EventStore, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import { dirWith, openIn, overDouble, startDouble } from '../copy/logs.ts';
import { event, everything } from '../eventStore/contract.ts';
import { MTH, PATH, PROOF } from '../merkle/rfc9162.ts';
import { tempDir } from '../support/tempDir.ts';

const { signal } = new AbortController();

/** Streams in log order. The fifth event creates the plant of alice that is asked for; bob has one with the same id. */
const STREAMS = ['alice/1', 'bob/42', 'alice/1', 'bob/1', 'alice/42', 'alice/42', 'bob/-9223372036854775808'];
const SIZE = STREAMS.length;

let log: EventStore;
/** The texts of its leaves. */
let leaves: string[];
let inclusion: InclusionProof;
let consistency: ConsistencyProof;

beforeAll(async () => {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  log = await openSqliteEventStore({
    file: join(dir, 'log.db'),
    now: () => new Date(),
    onFatal: (error) => {
      throw error;
    },
  });
  await plantAll(log);
  leaves = (await everything(log)).map((one) => leafText(one).text);
  inclusion = await proveInclusion(log, { user: 'alice', id: '42' }, signal);
  consistency = await proveConsistency(log, { from: 5 }, signal);
  return async () => {
    await log.close();
    rmSync(dir, { recursive: true });
  };
});

async function plantAll(empty: EventStore): Promise<void> {
  const last = new Map<string, bigint>();
  for (const [i, stream] of STREAMS.entries()) {
    const revision = last.get(stream) ?? NO_STREAM;
    last.set(stream, revision + 1n);
    await empty.append(`plant-${stream}`, event(`Fern ${i} 🌱 \u001f"\u2028`), revision);
  }
}

describe('an inclusion proof', () => {
  test('holds for every plant in the log of every size that it is in, and for its first event', async () => {
    const plants = { 'alice/1': 0, 'bob/42': 1, 'bob/1': 3, 'alice/42': 4, 'bob/-9223372036854775808': 6 };
    for (const [plant, index] of Object.entries(plants)) {
      const [user = '', id = ''] = plant.split('/');
      for (let size = index + 1; size <= SIZE; size++) {
        const proof = await proveInclusion(log, { user, id, size }, signal);
        const root = rootOf(size);
        expect(proof).toMatchObject({ proof: 'inclusion', size, root, index, event: { revision: '0' } });
        expect(proof.path).toEqual(PATH(index, leaves.slice(0, size)).map(hex));
        expect(checkProof(sent(proof))).toBe(
          `event "${proof.event.id}" of "plant-${plant}" is number ${index + 1} of the log ${size}:${root}`,
        );
      }
    }
  });

  test('is of the whole log where no size is given, and holds all that its leaf is made of', async () => {
    const [{ id = '' } = {}] = await log.readStream('plant-alice/42', 1);
    expect(sent(inclusion)).toEqual({
      proof: 'inclusion',
      size: 7,
      root: rootOf(7),
      index: 4,
      event: {
        id,
        stream: 'plant-alice/42',
        revision: '0',
        type: 'PlantCreated',
        data: { name: 'Fern 4 🌱 \u001f"\u2028' },
        metadata: { schemaVersion: 1 },
      },
      path: PATH(4, leaves).map(hex),
    });
  });

  test('holds for plants early and late in a log of many events', async () => {
    const many = openSqliteLog(join(await dirWith(1_100), 'log.db'));
    onTestFinished(() => many.close());
    for (const id of [3, 499, 500, 1_000, 1_099]) {
      const asked = { user: `u${id % 7}`, id: `${id}` };
      const proof = await proveInclusion(many, asked, signal);
      expect(proof).toMatchObject({ size: 1_100, index: id, event: { data: { name: `plant ${id}` } } });
      expect(checkProof(sent(proof))).toContain(`is number ${id + 1} of the log 1100:`);
    }
  });

  const among = (events: number) => `has no plant 42 among the first ${events} events`;
  test.each<[string, Parameters<typeof proveInclusion>[1], string]>([
    ['of an unknown user', { user: 'carol', id: '42' }, `"carol" ${among(7)}`],
    ['of an unknown plant', { user: 'alice', id: '7' }, '"alice" has no plant 7 among the first 7 events'],
    ['of a plant to come', { user: 'alice', id: '42', size: 4 }, `"alice" ${among(4)}`],
    ['in the log without events', { user: 'alice', id: '42', size: 0 }, `"alice" ${among(0)}`],
    ['in a log that is to come', { user: 'alice', id: '42', size: 8 }, 'the log has 7 events, not 8'],
    ['of nobody in a log to come', { user: 'carol', id: '42', size: 9 }, 'the log has 7 events, not 9'],
  ])('%s there is none', async (_, asked, message) => {
    await expect(proveInclusion(log, asked, signal)).rejects.toThrow(new NotProven(message));
  });

  test('in an empty log there is none', async () => {
    const empty = await openIn(tempDir());
    await expect(proveInclusion(empty, { user: 'alice', id: '42' }, signal)).rejects.toThrow(
      new NotProven('"alice" has no plant 42 among the first 0 events'),
    );
  });
});

describe('a consistency proof', () => {
  test('holds for every pair of sizes', async () => {
    for (let to = 1; to <= SIZE; to++) {
      for (let from = 1; from <= to; from++) {
        const proof = await proveConsistency(log, { from, to }, signal);
        expect(sent(proof)).toEqual({
          proof: 'consistency',
          from: { size: from, root: rootOf(from) },
          to: { size: to, root: rootOf(to) },
          path: PROOF(from, leaves.slice(0, to)).map(hex),
        });
        expect(checkProof(sent(proof))).toBe(
          `the log ${from}:${rootOf(from)} is the beginning of the log ${to}:${rootOf(to)}`,
        );
      }
    }
  });

  test('is up to the whole log where no size is given', async () => {
    expect(consistency.to).toEqual({ size: 7, root: rootOf(7) });
  });

  test.each([
    ['from', { from: 8 }, 8],
    ['from and to', { from: 8, to: 9 }, 9],
    ['to', { from: 3, to: 8 }, 8],
  ])('%s a log that is to come there is none', async (_, sizes, size) => {
    const message = `the log has 7 events, not ${size}`;
    await expect(proveConsistency(log, sizes, signal)).rejects.toThrow(new NotProven(message));
  });
});

describe('both kinds of proof', () => {
  const both = (from: EventLog) =>
    Promise.all([
      proveInclusion(from, { user: 'alice', id: '42' }, signal),
      proveConsistency(from, { from: 5 }, signal),
    ]);

  test('are the same on EventStoreDB, after a copy', async () => {
    const eventStoreDb = await overDouble((await startDouble()).url);
    await copyLog({ from: log, to: eventStoreDb });
    expect(await both(eventStoreDb)).toEqual([inclusion, consistency]);
  });

  test('hold where the log grows while they are made', async () => {
    const own = await openIn(tempDir());
    await plantAll(own);
    const growing: EventLog = {
      mark: () => own.mark(),
      readStream: (stream, maxCount) => own.readStream(stream, maxCount),
      eventAt: (position) => own.eventAt(position),
      subscribe: (options) => own.subscribe(options),
      close: () => own.close(),
      async end() {
        await own.append(`plant-carol/${randomUUID()}`, event('meanwhile'), NO_STREAM);
        return own.end();
      },
    };
    for (const proof of await both(growing)) expect(checkProof(sent(proof))).toMatch(/./);
  });

  test('are not made once they are no longer wanted', async () => {
    const over = AbortSignal.abort(new Error('stopped'));
    const refused = expect.objectContaining({ message: 'stopped' });
    await expect(proveInclusion(log, { user: 'alice', id: '42' }, over)).rejects.toEqual(refused);
    await expect(proveConsistency(log, { from: 5 }, over)).rejects.toEqual(refused);
    await expect(rootOfLog(log, over)).rejects.toEqual(refused);
  });

  test('show the roots that verify prints', async () => {
    const { root } = await proveInclusion(log, { user: 'bob', id: '42', size: 6 }, signal);
    expect(await rootOfLog(log, signal, 6)).toEqual({ size: 6, root });
    expect(await rootOfLog(log, signal)).toEqual({ size: 7, root: rootOf(7) });
    await expect(rootOfLog(log, signal, 8)).rejects.toThrow(new NotProven('the log has 7 events, not 8'));
  });
});

describe('a proof of what another writer has stored in EventStoreDB', () => {
  test.each<[string, Parameters<Awaited<ReturnType<typeof startDouble>>['write']>[1]]>([
    ['half a character', { data: '{"name":"\\ud83c"}', metadata: '{}' }],
    ['a number beyond all bounds', { data: '{"litres":1e999}', metadata: '{}' }],
    ['bytes', { contentType: 'application/octet-stream', data: Buffer.of(0, 255) }],
    ['data that is no JSON', { data: 'Fern', metadata: '{}' }],
    ['metadata that is no JSON', { data: '{}', metadata: 'alice' }],
    ['numbers that lose digits', { data: '{"a":9007199254740993,"b":-0,"c":1E2}', metadata: '{}' }],
  ])('%s, can be checked without the log', async (_, written) => {
    const double = await startDouble();
    double.write('plant-bob/42', { data: '{}', metadata: '{}' });
    double.write('plant-alice/42', written);
    const proof = await proveInclusion(await overDouble(double.url), { user: 'alice', id: '42' }, signal);
    expect(checkProof(sent(proof))).toContain('of "plant-alice/42" is number 2 of the log 2:');
  });
});

describe('a damaged proof', () => {
  // Sizes whose proofs tell them from the sizes that one bit makes of them: see test/merkle/proofs.test.ts.
  test.each([
    ['inclusion', () => inclusion],
    ['consistency', () => consistency],
  ])('of %s is refused, whichever bit of it is flipped', (_, proof) => {
    const text = Buffer.from(JSON.stringify(proof()));
    const accepted: string[] = [];
    for (let bit = 0; bit < 8 * text.length; bit++) {
      const damaged = Buffer.from(text);
      damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      const parsed = parsedOr(damaged, undefined);
      // In an escape such as \u001f, F and f are the same digit.
      if (JSON.stringify(parsed) !== String(text) && isAccepted(parsed)) accepted.push(String(damaged));
    }
    expect(accepted).toEqual([]);
  });

  const NONE = 'this is no proof of inclusion or consistency, or it is damaged';
  const NOT_IN = 'the proof does not hold: its event is not in a log with its size and root';
  const NOT_BEGINNING = 'the proof does not hold: the earlier log is not the beginning of the later one';
  const HASH = '0'.repeat(64);

  test.each<[string, (proof: InclusionProof) => object, string]>([
    ['of another kind', (proof) => ({ ...proof, proof: 'consistency' }), NONE],
    ['of no kind', ({ proof: _, ...rest }) => rest, NONE],
    ['without a path', ({ path: _, ...rest }) => rest, NONE],
    ['without an event', ({ event: _, ...rest }) => rest, NONE],
    ['a root in capitals', (proof) => ({ ...proof, root: proof.root.toUpperCase() }), NONE],
    ['a root that is cut', (proof) => ({ ...proof, root: proof.root.slice(2) }), NONE],
    ['a root with a line end', (proof) => ({ ...proof, root: `${proof.root}\n` }), NONE],
    [
      'a path in capitals',
      ({ path, ...rest }) => ({ ...rest, path: path.map((hash) => hash.toUpperCase()) }),
      NONE,
    ],
    [
      'a path that is cut',
      ({ path, ...rest }) => ({ ...rest, path: path.map((hash) => hash.slice(2)) }),
      NONE,
    ],
    ['a path that is none', (proof) => ({ ...proof, path: {} }), NONE],
    ['a path without end', (proof) => ({ ...proof, path: Array(65).fill(HASH) }), NONE],
    ['a negative size', (proof) => ({ ...proof, size: -7 }), NONE],
    ['a size with a fraction', (proof) => ({ ...proof, size: 7.5 }), NONE],
    ['a size beyond the safe ones', (proof) => ({ ...proof, size: 2 ** 53 }), NONE],
    ['a size as text', (proof) => ({ ...proof, size: '7' }), NONE],
    ['a negative index', (proof) => ({ ...proof, index: -1 }), NONE],
    ['an index with a fraction', (proof) => ({ ...proof, index: 4.5 }), NONE],
    ['an event that lacks its id', ({ event: { id: _, ...event }, ...rest }) => ({ ...rest, event }), NONE],
    ['a revision as number', ({ event, ...rest }) => ({ ...rest, event: { ...event, revision: 0 } }), NONE],
    ['a member more', (proof) => ({ ...proof, note: 'checked' }), NONE],
    ['another index', (proof) => ({ ...proof, index: 3 }), NOT_IN],
    ['an index beyond its size', (proof) => ({ ...proof, index: 7 }), NOT_IN],
    ['no size', (proof) => ({ ...proof, size: 0, index: 0, path: [] }), NOT_IN],
    ['another root', (proof) => ({ ...proof, root: HASH }), NOT_IN],
    ['a path that ends early', (proof) => ({ ...proof, path: proof.path.slice(0, -1) }), NOT_IN],
    ['a path that goes on', (proof) => ({ ...proof, path: [...proof.path, HASH] }), NOT_IN],
    ['a path that is turned around', (proof) => ({ ...proof, path: proof.path.toReversed() }), NOT_IN],
    ['an event without data', ({ event: { data: _, ...event }, ...rest }) => ({ ...rest, event }), NOT_IN],
    [
      'an event without metadata',
      ({ event: { metadata: _, ...event }, ...rest }) => ({ ...rest, event }),
      NOT_IN,
    ],
    ['data with a member more', (proof) => withData(proof, { tag: 'indoor' }), NOT_IN],
  ])('of inclusion is refused: %s', (_, damage, message) => {
    const damaged = sent(damage(inclusion) as Proof);
    expect(() => checkProof(damaged)).toThrow(new NotProven(message));
  });

  test('of inclusion is refused: an event with a member more', () => {
    const { event, ...rest } = inclusion;
    expect(() => checkProof({ ...rest, event: { ...event, position: '5' } })).toThrow(NotProven);
  });

  test.each<[string, (proof: ConsistencyProof) => object, string]>([
    ['of another kind', (proof) => ({ ...proof, proof: 'inclusion' }), NONE],
    ['without the earlier log', ({ from: _, ...rest }) => rest, NONE],
    [
      'a root in capitals',
      ({ to, ...rest }) => ({ ...rest, to: { ...to, root: to.root.toUpperCase() } }),
      NONE,
    ],
    ['a negative size', ({ from, ...rest }) => ({ ...rest, from: { ...from, size: -5 } }), NONE],
    ['a size with a fraction', ({ to, ...rest }) => ({ ...rest, to: { ...to, size: 6.5 } }), NONE],
    ['a member more', (proof) => ({ ...proof, note: 'checked' }), NONE],
    ['a member more inside', ({ to, ...rest }) => ({ ...rest, to: { ...to, note: 'checked' } }), NONE],
    ['another size', ({ to, ...rest }) => ({ ...rest, to: { ...to, size: 6 } }), NOT_BEGINNING],
    [
      'from nothing',
      ({ from, ...rest }) => ({ ...rest, from: { ...from, size: 0 }, path: [] }),
      NOT_BEGINNING,
    ],
    ['the wrong way around', ({ from, to, ...rest }) => ({ ...rest, from: to, to: from }), NOT_BEGINNING],
    [
      'two roots of one size',
      ({ from, to, ...rest }) => ({ ...rest, from: { ...from, size: 7 }, to, path: [] }),
      NOT_BEGINNING,
    ],
    ['a path that ends early', (proof) => ({ ...proof, path: proof.path.slice(1) }), NOT_BEGINNING],
    ['no path', (proof) => ({ ...proof, path: [] }), NOT_BEGINNING],
  ])('of consistency is refused: %s', (_, damage, message) => {
    const damaged = sent(damage(consistency) as Proof);
    expect(() => checkProof(damaged)).toThrow(new NotProven(message));
  });

  // Sizes are hashed nowhere, so it is SIZE:ROOT, both together, that has to be compared with one that is trusted.
  test('with another size that leads to the same root shows that size', async () => {
    const proof = await proveInclusion(log, { user: 'alice', id: '1', size: 4 }, signal);
    expect(checkProof({ ...proof, size: 3 })).toContain(`is number 1 of the log 3:${rootOf(4)}`);
    expect(rootOf(3)).not.toBe(rootOf(4));
  });
});

describe('whatever is given as a proof', () => {
  /** As JSON.parse may give it, half characters and all. */
  const anything = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom<unknown>(
        null,
        true,
        0,
        -0,
        1,
        0.5,
        -1,
        2 ** 53,
        Number.POSITIVE_INFINITY,
        '',
        '\ud83c',
        'a\nb',
      ),
      fc.array(tie('json'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('id', 'size', 'root', '\ud83c', '__proto__', 'toJSON'), tie('json'), {
        maxKeys: 3,
        noNullPrototype: true,
      }),
    ),
  })).json;
  const or = (sound: fc.Arbitrary<unknown>) => fc.oneof({ weight: 12, arbitrary: sound }, anything);
  const text = or(fc.constantFrom('plant-alice/1', '0', '', '\ud83c', 'PlantCreated'));
  const hash = or(fc.constantFrom('0'.repeat(64), leafHash('Fern').toString('hex')));
  const size = or(fc.nat(9));
  const tree = or(fc.record({ size, root: hash }));
  const created = fc.record({
    id: text,
    stream: text,
    revision: text,
    type: text,
    data: anything,
    metadata: anything,
  });
  const nearly = fc.record({
    proof: or(fc.constantFrom('inclusion', 'consistency')),
    size,
    index: size,
    root: hash,
    event: or(created),
    from: tree,
    to: tree,
    path: or(fc.array(hash, { maxLength: 3 })),
  });

  test('is a proof, or refused in words', () => {
    fc.assert(
      fc.property(fc.oneof({ weight: 5, arbitrary: nearly }, anything), (proof) => {
        try {
          expect(checkProof(proof)).toMatch(/ the log \d+:[\da-f]{64}$/);
        } catch (error) {
          expect(error).toBeInstanceOf(NotProven);
        }
      }),
      { numRuns: 5_000 },
    );
  });

  test('half a character in the id of its event is refused as the rest is', () => {
    const made = ownProof({ id: 'half \ud83c', stream: 'plant-alice/1' });
    expect(() => checkProof(made)).toThrow(NotProven);
  });

  test('however deep it is nested is refused', () => {
    const deep = JSON.parse(`${'['.repeat(100_000)}"\\ud83c"${']'.repeat(100_000)}`);
    const made = ownProof({ id: 'deep', stream: 'plant-alice/1' });
    expect(() => checkProof(deep)).toThrow(NotProven);
    expect(() => checkProof({ ...made, event: { ...made.event, data: deep } })).toThrow(NotProven);
  });

  // A proof comes from anybody, and what it holds may be true of a log of its own.
  test.each([
    'x of "plant-alice/1" is number 1 of the log 9:0\nevent y',
    'x\r\u0085y',
    'x\u2028y',
    '\x1b[2Kx',
    'x\u202ey',
  ])('shows one line, and nothing that steers a terminal, of an event %j', (name) => {
    const shown = [
      checkProof(ownProof({ id: name, stream: 'plant-alice/1' })),
      checkProof(ownProof({ id: 'x', stream: `plant-${name}/1` })),
    ];
    for (const line of shown) expect(line).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  });
});

function rootOf(size: number): string {
  return hex(MTH(leaves.slice(0, size)));
}

function hex(hash: Buffer): string {
  return hash.toString('hex');
}

/** What arrives of a proof where it is checked. */
function sent<P extends object>(proof: P): P {
  return JSON.parse(JSON.stringify(proof));
}

function parsedOr<T>(text: Buffer, otherwise: T): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    return otherwise;
  }
}

function isAccepted(proof: unknown): boolean {
  try {
    checkProof(proof);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(NotProven);
    return false;
  }
}

function withData<P extends { event: { data?: unknown } }>({ event, ...rest }: P, more: object) {
  return { ...rest, event: { ...event, data: { ...(event.data as object), ...more } } };
}

/** A sound proof of a log that somebody has made up, with this one event. */
function ownProof({ id, stream }: { id: string; stream: string }) {
  const made = { id, stream, revision: '0', type: 'PlantCreated' };
  const [soundId, soundStream] = [id.toWellFormed(), stream.toWellFormed()];
  const text = canonical({ ...made, id: soundId, stream: soundStream });
  return { proof: 'inclusion', size: 1, root: hex(leafHash(text)), index: 0, event: made, path: [] };
}
