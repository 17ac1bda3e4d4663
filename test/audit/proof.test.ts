import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { canonicalJson, leafText } from '../../src/audit/leaf.ts';
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
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import { event, everything } from '../eventStore/contract.ts';
import { MTH, PATH, PROOF } from '../merkle/rfc9162.ts';
import { dirWith, openIn, openLogOf, overFakeServer, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const { signal } = new AbortController();

/**
 * Streams in log order. The fifth event creates the plant of alice that is proved; bob has one with the same
 * ID.
 */
const STREAMS = ['alice/1', 'bob/42', 'alice/1', 'bob/1', 'alice/42', 'alice/42', 'bob/-9223372036854775808'];
const SIZE = STREAMS.length;

let log: EventStore;
/** The texts of the leaves of the log. */
let leaves: string[];
let inclusion: InclusionProof;
let consistency: ConsistencyProof;

beforeAll(async () => {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  log = await openLogOf(dir);
  await appendAll(log);
  leaves = (await everything(log)).map((one) => leafText(one).text);
  inclusion = await proveInclusion(log, { user: 'alice', id: '42' }, signal);
  consistency = await proveConsistency(log, { from: 5 }, signal);
  return async () => {
    await log.close();
    rmSync(dir, { recursive: true });
  };
});

async function appendAll(empty: EventStore): Promise<void> {
  const last = new Map<string, bigint>();
  for (const [i, stream] of STREAMS.entries()) {
    const revision = last.get(stream) ?? NO_STREAM;
    last.set(stream, revision + 1n);
    await empty.append(`plant-${stream}`, event(`Fern ${i} 🌱 \u001f"\u2028`), revision);
  }
}

describe('an inclusion proof', () => {
  test('is valid for the first event of every plant, at every size of the log that includes it', async () => {
    const plants = { 'alice/1': 0, 'bob/42': 1, 'bob/1': 3, 'alice/42': 4, 'bob/-9223372036854775808': 6 };
    for (const [plant, index] of Object.entries(plants)) {
      const [user = '', id = ''] = plant.split('/');
      for (let size = index + 1; size <= SIZE; size++) {
        const proof = await proveInclusion(log, { user, id, size }, signal);
        const root = rootOf(size);
        expect(proof).toMatchObject({ proof: 'inclusion', size, root, index, event: { revision: '0' } });
        expect(proof.path).toEqual(PATH(index, leaves.slice(0, size)));
        expect(checkProof(sent(proof))).toBe(
          `event "${proof.event.id}" of "plant-${plant}" is number ${index + 1} of the log ${size}:${root}`,
        );
      }
    }
  });

  test('is for the whole log by default, and contains the whole event', async () => {
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
      path: PATH(4, leaves),
    });
  });

  test('is valid for early and late plants in a large log', async () => {
    const many = openLogReader(join(await dirWith(1_100), 'log.db'));
    onTestFinished(() => many.close());
    for (const id of [3, 499, 500, 1_000, 1_099]) {
      const plant = { user: `u${id % 7}`, id: `${id}` };
      const proof = await proveInclusion(many, plant, signal);
      expect(proof).toMatchObject({ size: 1_100, index: id, event: { data: { name: `plant ${id}` } } });
      expect(checkProof(sent(proof))).toContain(`is number ${id + 1} of the log 1100:`);
    }
  });

  const hasNone = (user: string, events: number, id = '42') =>
    `"${user}" has no plant ${id} among the first ${events} events`;
  const BEYOND = 'the log has 7 events, fewer than';
  test.each<[string, Parameters<typeof proveInclusion>[1], string]>([
    ['of an unknown user', { user: 'carol', id: '42' }, hasNone('carol', 7)],
    ['of an unknown plant', { user: 'alice', id: '7' }, hasNone('alice', 7, '7')],
    ['of a plant beyond the size', { user: 'alice', id: '42', size: 4 }, hasNone('alice', 4)],
    ['at size 0', { user: 'alice', id: '42', size: 0 }, hasNone('alice', 0)],
    ['at a size beyond the log', { user: 'alice', id: '42', size: 8 }, `${BEYOND} 8`],
    ['of an unknown user at a size beyond the log', { user: 'carol', id: '42', size: 9 }, `${BEYOND} 9`],
  ])('%s cannot be made', async (_, plant, message) => {
    await expect(proveInclusion(log, plant, signal)).rejects.toThrow(new NotProven(message));
  });

  test('in an empty log cannot be made', async () => {
    const empty = await openIn(tempDir());
    await expect(proveInclusion(empty, { user: 'alice', id: '42' }, signal)).rejects.toThrow(
      new NotProven('"alice" has no plant 42 among the first 0 events'),
    );
  });
});

describe('a consistency proof', () => {
  test('is valid for every pair of sizes', async () => {
    for (let to = 1; to <= SIZE; to++) {
      for (let from = 1; from <= to; from++) {
        const proof = await proveConsistency(log, { from, to }, signal);
        expect(sent(proof)).toEqual({
          proof: 'consistency',
          from: { size: from, root: rootOf(from) },
          to: { size: to, root: rootOf(to) },
          path: PROOF(from, leaves.slice(0, to)),
        });
        expect(checkProof(sent(proof))).toBe(
          `the log ${from}:${rootOf(from)} is the beginning of the log ${to}:${rootOf(to)}`,
        );
      }
    }
  });

  test('is up to the whole log by default', async () => {
    expect(consistency.to).toEqual({ size: 7, root: rootOf(7) });
  });

  test.each([
    ['from', { from: 8 }, 8],
    ['from and to', { from: 8, to: 9 }, 9],
    ['to', { from: 3, to: 8 }, 8],
  ])('%s a size beyond the log cannot be made', async (_, sizes, size) => {
    const message = `the log has 7 events, fewer than ${size}`;
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
    const eventStoreDb = await overFakeServer((await startFakeServer()).url);
    await copyLog({ from: log, to: eventStoreDb });
    expect(await both(eventStoreDb)).toEqual([inclusion, consistency]);
  });

  test('are valid if the log grows while they are made', async () => {
    const own = await openIn(tempDir());
    await appendAll(own);
    const growing: EventLog = {
      ...own,
      async lastPosition() {
        await own.append(`plant-carol/${randomUUID()}`, event('meanwhile'), NO_STREAM);
        return own.lastPosition();
      },
    };
    for (const proof of await both(growing)) expect(checkProof(sent(proof))).toMatch(/./);
  });

  test('are not made after an abort', async () => {
    const over = AbortSignal.abort(new Error('stopped'));
    const refused = expect.objectContaining({ message: 'stopped' });
    await expect(proveInclusion(log, { user: 'alice', id: '42' }, over)).rejects.toEqual(refused);
    await expect(proveConsistency(log, { from: 5 }, over)).rejects.toEqual(refused);
    await expect(rootOfLog(log, over)).rejects.toEqual(refused);
  });

  test('contain the roots that verify prints', async () => {
    const { root } = await proveInclusion(log, { user: 'bob', id: '42', size: 6 }, signal);
    expect(await rootOfLog(log, signal, 6)).toEqual({ size: 6, root });
    expect(await rootOfLog(log, signal)).toEqual({ size: 7, root: rootOf(7) });
    await expect(rootOfLog(log, signal, 8)).rejects.toThrow(
      new NotProven('the log has 7 events, fewer than 8'),
    );
  });
});

describe('a proof of an event of another writer in EventStoreDB', () => {
  test.each<[string, Parameters<Awaited<ReturnType<typeof startFakeServer>>['write']>[1]]>([
    ['an unpaired surrogate', { data: '{"name":"\\ud83c"}', metadata: '{}' }],
    ['an infinite number', { data: '{"litres":1e999}', metadata: '{}' }],
    ['binary data', { contentType: 'application/octet-stream', data: Buffer.of(0, 255) }],
    ['data that is not JSON', { data: 'Fern', metadata: '{}' }],
    ['metadata that is not JSON', { data: '{}', metadata: 'alice' }],
    ['numbers that lose digits', { data: '{"a":9007199254740993,"b":-0,"c":1E2}', metadata: '{}' }],
  ])('with %s can be checked without the log', async (_, written) => {
    const server = await startFakeServer();
    server.write('plant-bob/42', { data: '{}', metadata: '{}' });
    server.write('plant-alice/42', written);
    const proof = await proveInclusion(await overFakeServer(server.url), { user: 'alice', id: '42' }, signal);
    expect(checkProof(sent(proof))).toContain('of "plant-alice/42" is number 2 of the log 2:');
  });
});

describe('a damaged proof', () => {
  // Sizes whose proofs differ from those of sizes with one bit flipped: see test/merkle/proofs.test.ts.
  test.each([
    ['inclusion', () => inclusion],
    ['consistency', () => consistency],
  ])('of %s is rejected, whichever bit is flipped', (_, undamaged) => {
    const text = Buffer.from(JSON.stringify(undamaged()));
    const accepted: string[] = [];
    for (let bit = 0; bit < 8 * text.length; bit++) {
      const damaged = Buffer.from(text);
      damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      const proof = parsed(damaged);
      // In an escape such as \u001f, F and f are equal.
      if (JSON.stringify(proof) !== String(text) && isAccepted(proof)) accepted.push(String(damaged));
    }
    expect(accepted).toEqual([]);
  });

  const NONE = 'not an inclusion or consistency proof, or it is damaged';
  const NOT_IN = 'the proof is invalid: its event is not in a log with its size and root';
  const NOT_BEGINNING = 'the proof is invalid: the earlier log is not the beginning of the later one';
  const HASH = '0'.repeat(64);

  type Change<P> = object | ((proof: P) => object);

  /** The proof as received, with members changed, or removed if undefined; those of objects one by one. */
  function changed<P extends Proof>(proof: P, change: Change<P>): Proof {
    const isObject = (value: unknown): value is object => value?.constructor === Object;
    const members = Object.entries(change instanceof Function ? change(proof) : change).map(
      ([name, value]) => {
        const old = proof[name as keyof P];
        return [name, isObject(old) && isObject(value) ? { ...old, ...value } : value];
      },
    );
    return sent({ ...proof, ...Object.fromEntries(members) });
  }

  test.each<[string, Change<InclusionProof>, string]>([
    ['of another kind', { proof: 'consistency' }, NONE],
    ['without its kind', { proof: undefined }, NONE],
    ['without a path', { path: undefined }, NONE],
    ['without an event', { event: undefined }, NONE],
    ['a root in upper case', ({ root }) => ({ root: root.toUpperCase() }), NONE],
    ['a truncated root', ({ root }) => ({ root: root.slice(2) }), NONE],
    ['a root with a line feed', ({ root }) => ({ root: `${root}\n` }), NONE],
    ['a path in upper case', ({ path }) => ({ path: path.map((hash) => hash.toUpperCase()) }), NONE],
    ['truncated hashes in the path', ({ path }) => ({ path: path.map((hash) => hash.slice(2)) }), NONE],
    ['a path that is not an array', { path: {} }, NONE],
    ['a path of 65 hashes', { path: Array(65).fill(HASH) }, NONE],
    ['a negative size', { size: -7 }, NONE],
    ['a size with a fraction', { size: 7.5 }, NONE],
    ['a size that is not a safe integer', { size: 2 ** 53 }, NONE],
    ['a size as text', { size: '7' }, NONE],
    ['a negative index', { index: -1 }, NONE],
    ['an index with a fraction', { index: 4.5 }, NONE],
    ['an event without its ID', { event: { id: undefined } }, NONE],
    ['an event with an unknown member', { event: { position: '5' } }, NONE],
    ['a revision as number', { event: { revision: 0 } }, NONE],
    ['an unknown member', { note: 'checked' }, NONE],
    ['another index', { index: 3 }, NOT_IN],
    ['an index beyond its size', { index: 7 }, NOT_IN],
    ['size 0', { size: 0, index: 0, path: [] }, NOT_IN],
    ['another root', { root: HASH }, NOT_IN],
    ['a path that is too short', ({ path }) => ({ path: path.slice(0, -1) }), NOT_IN],
    ['a path that is too long', ({ path }) => ({ path: [...path, HASH] }), NOT_IN],
    ['a reversed path', ({ path }) => ({ path: path.toReversed() }), NOT_IN],
    ['an event without data', { event: { data: undefined } }, NOT_IN],
    ['an event without metadata', { event: { metadata: undefined } }, NOT_IN],
    [
      'data with another member',
      { event: { data: { name: 'Fern 4 🌱 \u001f"\u2028', tag: 'indoor' } } },
      NOT_IN,
    ],
  ])('of inclusion is rejected: %s', (_, change, message) => {
    expect(() => checkProof(changed(inclusion, change))).toThrow(new NotProven(message));
  });

  test.each<[string, Change<ConsistencyProof>, string]>([
    ['of another kind', { proof: 'inclusion' }, NONE],
    ['without the earlier log', { from: undefined }, NONE],
    ['a root in upper case', ({ to }) => ({ to: { root: to.root.toUpperCase() } }), NONE],
    ['a negative size', { from: { size: -5 } }, NONE],
    ['a size with a fraction', { to: { size: 6.5 } }, NONE],
    ['an unknown member', { note: 'checked' }, NONE],
    ['an unknown nested member', { to: { note: 'checked' } }, NONE],
    ['another size', { to: { size: 6 } }, NOT_BEGINNING],
    ['from size 0', { from: { size: 0 }, path: [] }, NOT_BEGINNING],
    ['swapped logs', ({ from, to }) => ({ from: to, to: from }), NOT_BEGINNING],
    ['two roots of one size', { from: { size: 7 }, path: [] }, NOT_BEGINNING],
    ['a path that is too short', ({ path }) => ({ path: path.slice(1) }), NOT_BEGINNING],
    ['an empty path', { path: [] }, NOT_BEGINNING],
  ])('of consistency is rejected: %s', (_, change, message) => {
    expect(() => checkProof(changed(consistency, change))).toThrow(new NotProven(message));
  });

  // Sizes are not hashed, so SIZE and ROOT must be compared together with a trusted value.
  test('with another size and the same root is reported with that size', async () => {
    const proof = await proveInclusion(log, { user: 'alice', id: '1', size: 4 }, signal);
    expect(checkProof({ ...proof, size: 3 })).toContain(`is number 1 of the log 3:${rootOf(4)}`);
    expect(rootOf(3)).not.toBe(rootOf(4));
  });
});

describe('any input as a proof', () => {
  const NUMBERS = [0, -0, 1, 0.5, -1, 2 ** 53, Number.POSITIVE_INFINITY];
  const VALUES: unknown[] = [null, true, ...NUMBERS, '', '\ud83c', 'a\nb'];

  /** Any result of JSON.parse, including unpaired surrogates. */
  const anything = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom(...VALUES),
      fc.array(tie('json'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('id', 'size', 'root', '\ud83c', '__proto__', 'toJSON'), tie('json'), {
        maxKeys: 3,
        noNullPrototype: true,
      }),
    ),
  })).json;
  const or = (valid: fc.Arbitrary<unknown>) => fc.oneof({ weight: 12, arbitrary: valid }, anything);
  const text = or(fc.constantFrom('plant-alice/1', '0', '', '\ud83c', 'PlantCreated'));
  const hash = or(fc.constantFrom('0'.repeat(64), leafHash('Fern')));
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

  test('is valid, or rejected with a message', () => {
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

  test('with an unpaired surrogate in the event ID is rejected', () => {
    expect(() => checkProof(ownProof('half \ud83c'))).toThrow(NotProven);
  });

  test('with deep nesting is rejected', () => {
    const deep = JSON.parse(`${'['.repeat(100_000)}"\\ud83c"${']'.repeat(100_000)}`);
    const made = ownProof('deep');
    expect(() => checkProof(deep)).toThrow(NotProven);
    expect(() => checkProof({ ...made, event: { ...made.event, data: deep } })).toThrow(NotProven);
  });
});

function rootOf(size: number): string {
  return MTH(leaves.slice(0, size));
}

/** The proof after it was sent as JSON. */
function sent<P extends object>(proof: P): P {
  return JSON.parse(JSON.stringify(proof));
}

/** Undefined if it is not JSON. */
function parsed(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {}
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

/** A valid proof for an invented log with this one event. */
function ownProof(id: string) {
  const made = { id, stream: 'plant-alice/1', revision: '0', type: 'PlantCreated' };
  const text = canonicalJson({ ...made, id: id.toWellFormed() });
  return { proof: 'inclusion', size: 1, root: leafHash(text), index: 0, event: made, path: [] };
}
