import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { describeEntry } from '../../src/audit/entry.ts';
import { leafText } from '../../src/audit/leaf.ts';
import { NotProven, proveConsistency, proveInclusion, rootOfLog } from '../../src/audit/proof.ts';
import { copyLog } from '../../src/copy/copyLog.ts';
import { type EventLog, type EventStore, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import type { TreeHead } from '../../src/merkle/treeHead.ts';
import {
  type ConsistencyProof,
  formatConsistencyProof,
  openConsistencyProof,
} from '../../src/transparency/consistencyProof.ts';
import {
  formatInclusionProof,
  type InclusionProof,
  openInclusionProof,
} from '../../src/transparency/inclusionProof.ts';
import type { LogKey } from '../../src/transparency/logKey.ts';
import { signCheckpoint, verifierKeyOf } from '../../src/transparency/signCheckpoint.ts';
import { event, everything } from '../eventStore/contract.ts';
import type { FakeEventStoreDb } from '../fakeEventStoreDb/server.ts';
import { MTH, PATH, PROOF } from '../merkle/rfc9162.ts';
import { storePool } from '../support/storePool.ts';
import { dirWith, openIn, openLogOf, openOver } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';
import { keyNamed } from '../transparency/keys.ts';

const origin = 'plants.example/log';
const LOG: LogKey = { origin, key: keyNamed('log'), verifierKey: verifierKeyOf(origin, keyNamed('log')) };
const { signal } = new AbortController();
const sign = async (head: TreeHead) => signCheckpoint(head, LOG);
const context = { sign, signal };
const eventStoreDb = storePool(openOver);

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
  inclusion = await proveInclusion(log, { user: 'alice', id: '42' }, context);
  consistency = await proveConsistency(log, { from: 5 }, context);
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
        const proof = await proveInclusion(log, { user, id, size }, context);
        expect(proof.path).toEqual(PATH(index, leaves.slice(0, size)));
        const { entry, ...shown } = await opened(proof);
        expect(shown).toEqual({ index, checkpoint: headOf(size) });
        expect(entry.toString()).toBe(leaves[index]);
      }
    }
  });

  test('is for the whole log by default, and contains the whole event', async () => {
    const [{ id = '' } = {}] = await log.readStream('plant-alice/42', 1);
    const { entry, checkpoint } = await opened(inclusion);
    expect(checkpoint).toEqual(headOf(SIZE));
    expect(JSON.parse(entry.toString())).toEqual({
      id,
      stream: 'plant-alice/42',
      revision: '0',
      type: 'PlantCreated',
      data: { name: 'Fern 4 🌱 \u001f"\u2028' },
      metadata: { schemaVersion: 1 },
    });
  });

  test('is valid for early and late plants in a large log', async () => {
    const many = openLogReader(join(dirWith(1_100), 'log.db'));
    onTestFinished(() => many.close());
    for (const id of [3, 499, 500, 1_000, 1_099]) {
      const plant = { user: `u${id % 7}`, id: `${id}` };
      const proof = await proveInclusion(many, plant, context);
      const { entry, ...shown } = await opened(proof);
      expect(shown).toMatchObject({ index: id, checkpoint: { size: 1_100 } });
      expect(JSON.parse(entry.toString())).toMatchObject({ data: { name: `plant ${id}` } });
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
    await expect(proveInclusion(log, plant, context)).rejects.toThrow(new NotProven(message));
  });

  test('in an empty log cannot be made', async () => {
    const empty = await openIn(tempDir());
    await expect(proveInclusion(empty, { user: 'alice', id: '42' }, context)).rejects.toThrow(
      new NotProven('"alice" has no plant 42 among the first 0 events'),
    );
  });
});

describe('a consistency proof', () => {
  test('is valid for every pair of sizes', async () => {
    for (let to = 1; to <= SIZE; to++) {
      for (let from = 1; from <= to; from++) {
        const proof = await proveConsistency(log, { from, to }, context);
        expect(proof).toMatchObject({ from, path: PROOF(from, leaves.slice(0, to)) });
        const text = formatConsistencyProof(proof);
        expect(await openConsistencyProof(text, headOf(from), LOG.verifierKey)).toEqual(headOf(to));
      }
    }
  });

  test('is up to the whole log by default', async () => {
    expect(
      await openConsistencyProof(formatConsistencyProof(consistency), headOf(5), LOG.verifierKey),
    ).toEqual(headOf(SIZE));
  });

  test.each([
    ['from', { from: 8 }, 8],
    ['from and to', { from: 8, to: 9 }, 9],
    ['to', { from: 3, to: 8 }, 8],
  ])('%s a size beyond the log cannot be made', async (_, sizes, size) => {
    const message = `the log has 7 events, fewer than ${size}`;
    await expect(proveConsistency(log, sizes, context)).rejects.toThrow(new NotProven(message));
  });
});

describe('both kinds of proof', () => {
  const both = (from: EventLog) =>
    Promise.all([
      proveInclusion(from, { user: 'alice', id: '42' }, context),
      proveConsistency(from, { from: 5 }, context),
    ]);

  test('are the same on EventStoreDB, after a copy', async () => {
    const { store } = await eventStoreDb();
    await copyLog({ from: log, to: store });
    expect(await both(store)).toEqual([inclusion, consistency]);
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
    const [included, consistent] = await both(growing);
    expect((await opened(included)).index).toBe(4);
    const five = { size: 5, root: (await rootOfLog(own, signal, 5)).root };
    const later = await openConsistencyProof(formatConsistencyProof(consistent), five, LOG.verifierKey);
    expect(later.size).toBeGreaterThan(SIZE);
  });

  test('are not made after an abort', async () => {
    const over = AbortSignal.abort(new Error('stopped'));
    const aborted = { sign, signal: over };
    const refused = expect.objectContaining({ message: 'stopped' });
    await expect(proveInclusion(log, { user: 'alice', id: '42' }, aborted)).rejects.toEqual(refused);
    await expect(proveConsistency(log, { from: 5 }, aborted)).rejects.toEqual(refused);
    await expect(rootOfLog(log, over)).rejects.toEqual(refused);
  });

  test('contain the roots of the log, as verify prints them', async () => {
    expect(await rootOfLog(log, signal, 6)).toEqual({ size: 6, root: rootOf(6) });
    expect(await rootOfLog(log, signal)).toEqual({ size: 7, root: rootOf(7) });
    await expect(rootOfLog(log, signal, 8)).rejects.toThrow(
      new NotProven('the log has 7 events, fewer than 8'),
    );
  });
});

describe('a proof of an event of another writer in EventStoreDB', () => {
  test.each<[string, Parameters<FakeEventStoreDb['write']>[1]]>([
    ['an unpaired surrogate', { data: '{"name":"\\ud83c"}', metadata: '{}' }],
    ['an infinite number', { data: '{"litres":1e999}', metadata: '{}' }],
    ['binary data', { contentType: 'application/octet-stream', data: Buffer.of(0, 255) }],
    ['data that is not JSON', { data: 'Fern', metadata: '{}' }],
    ['metadata that is not JSON', { data: '{}', metadata: 'alice' }],
    ['numbers that lose digits', { data: '{"a":9007199254740993,"b":-0,"c":1E2}', metadata: '{}' }],
  ])('with %s can be checked without the log', async (_, written) => {
    const { server, store } = await eventStoreDb();
    server.write('plant-bob/42', { data: '{}', metadata: '{}' });
    server.write('plant-alice/42', written);
    const proof = await proveInclusion(store, { user: 'alice', id: '42' }, context);
    const { index, entry, checkpoint } = await opened(proof);
    expect([index, checkpoint.size]).toEqual([1, 2]);
    expect(describeEntry(entry)).toMatch(/^event "[^"]+" of "plant-alice\/42"$/);
  });
});

function rootOf(size: number): string {
  return MTH(leaves.slice(0, size));
}

const headOf = (size: number) => ({ origin: LOG.origin, size, root: rootOf(size) });
const opened = (proof: InclusionProof) => openInclusionProof(formatInclusionProof(proof), LOG.verifierKey);
