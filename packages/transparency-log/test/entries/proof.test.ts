import { randomUUID } from 'node:crypto';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventLog, type EventStore, NO_STREAM } from '../../../event-log/src/eventStore.ts';
import { event, everything } from '../../../event-log/src/testing/contract.ts';
import type { FakeEventStoreDb } from '../../../event-log/src/testing/fakeEventStoreDb/server.ts';
import { describeEntry } from '../../src/entries/entry.ts';
import { leafText } from '../../src/entries/leaf.ts';
import { type Claim, NotProven, proofFromLog, rootOfLog } from '../../src/entries/proof.ts';
import type { ProveConsistency } from '../../src/merkle/proofs.ts';
import type { TreeHead } from '../../src/merkle/treeHead.ts';
import { openConsistencyProof, openInclusionProof } from '../../src/notes/proof.ts';
import { signCheckpoint, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { MTH } from '../merkle/rfc9162.ts';
import { keyNamed } from '../notes/keys.ts';
import { openFake, openIn } from '../support/stores.ts';

const LOG = { origin: 'plants.example/log', key: keyNamed('log') };
const VERIFIER_KEY = toVerifierKey(LOG.origin, LOG.key);
const { signal } = new AbortController();
const signer = {
  sign: async (head: TreeHead) => ({ ...head, origin: LOG.origin, note: signCheckpoint(head, LOG) }),
  cosigned: async () => undefined,
};

/** Streams in log order. The fifth event creates the plant of alice that is proven; bob has one with the same ID. */
const STREAMS = ['alice/1', 'bob/42', 'alice/1', 'bob/1', 'alice/42', 'alice/42', 'bob/7'];
const log = await openIn(tempDir(afterAll), afterAll);
/** The texts of the leaves of the log. */
let leaves: string[];

beforeAll(async () => {
  await appendAll(log);
  leaves = (await everything(log)).map((one) => leafText(one).text);
});

async function appendAll(empty: EventStore): Promise<void> {
  const last = new Map<string, bigint>();
  for (const [i, stream] of STREAMS.entries()) {
    const revision = last.get(stream) ?? NO_STREAM;
    last.set(stream, revision + 1n);
    await empty.append(`plant-${stream}`, event(`Fern ${i} 🌱 \u001f"\u2028`), revision);
  }
}

const headOf = (size: number) => ({ size, root: MTH(leaves.slice(0, size)) });
const firstOf = (stream: string, size?: number): Claim => ({
  isEvent: (one) => one.stream === `plant-${stream}` && one.revision === 0n,
  notFound: `no ${stream}`,
  size,
});
const prove = (claim: Claim, from: EventLog = log) => proofFromLog(from, claim, { signer, signal });

describe('a proof from a log', () => {
  test('that has an event is valid at any size that includes it', async () => {
    for (const [stream, index, size] of [
      ['bob/42', 1, 2],
      ['alice/42', 4, 6],
      ['alice/42', 4, undefined],
      ['bob/7', 6, 7],
    ] as const) {
      const { entry, ...opened } = await openInclusionProof(await prove(firstOf(stream, size)), VERIFIER_KEY);
      expect(opened).toMatchObject({ index, checkpoint: headOf(size ?? 7) });
      expect(entry.toString()).toBe(leaves[index]);
    }
  });

  test('that it has only grown is valid between any sizes', async () => {
    for (const [from, to] of [
      [1, 2],
      [5, undefined],
      [7, 7],
    ] as const) {
      const opened = openConsistencyProof(await prove({ from, to }), headOf(from), VERIFIER_KEY);
      expect(await opened).toMatchObject(headOf(to ?? 7));
    }
  });

  test.each<[string, Claim, string]>([
    ['an unknown stream', firstOf('carol/42'), 'no carol/42 among the first 7 events'],
    ['an event beyond the size', firstOf('alice/42', 4), 'no alice/42 among the first 4 events'],
    ['size 0', firstOf('alice/42', 0), 'no alice/42 among the first 0 events'],
    ['a size beyond the log', firstOf('alice/42', 8), 'the log has 7 events, fewer than 8'],
    ['an earlier size beyond the log', { from: 8 }, 'the log has 7 events, fewer than 8'],
    ['a later size beyond the log', { from: 3, to: 9 }, 'the log has 7 events, fewer than 9'],
  ])('cannot be made for %s', async (_, claim, message) => {
    await expect(prove(claim)).rejects.toThrow(new NotProven(message));
  });

  test('extends what a service beside it has signed meanwhile', async () => {
    const own = await openIn(tempDir());
    await appendAll(own);
    const paths: unknown[] = [];
    const sign = async (head: TreeHead, proveConsistency: ProveConsistency) => {
      await own.append(`plant-carol/${randomUUID()}`, event('meanwhile'), NO_STREAM);
      paths.push(await proveConsistency(7, 8), await proveConsistency(7, 9));
      return signer.sign(head);
    };
    await proofFromLog(own, { from: 5 }, { signer: { ...signer, sign }, signal });
    expect(paths).toEqual([
      [expect.any(String), expect.any(String), expect.any(String), expect.any(String)],
      undefined,
    ]);
  });

  test('is not made after an abort', async () => {
    const over = AbortSignal.abort(new Error('stopped'));
    await expect(proofFromLog(log, { from: 5 }, { signer, signal: over })).rejects.toThrow('stopped');
    await expect(rootOfLog(log, over)).rejects.toThrow('stopped');
  });

  test.each<[string, Parameters<FakeEventStoreDb['write']>[1]]>([
    ['an unpaired surrogate', { data: '{"name":"\\ud83c"}', metadata: '{}' }],
    ['binary data', { contentType: 'application/octet-stream', data: Buffer.of(0, 255) }],
    ['data that is not JSON', { data: 'Fern', metadata: '{}' }],
    ['numbers that lose digits', { data: '{"a":9007199254740993,"b":-0,"c":1E2}', metadata: '{}' }],
  ])('of an event of another writer with %s is checked without the log', async (_, written) => {
    const { server, store } = await openFake();
    server.write('plant-bob/42', { data: '{}', metadata: '{}' });
    server.write('plant-alice/42', written);
    const proof = await prove(firstOf('alice/42'), store);
    const { index, entry } = await openInclusionProof(proof, VERIFIER_KEY);
    expect(index).toBe(1);
    expect(describeEntry(entry)).toMatch(/^event "[^"]+" of "plant-alice\/42" with the data /);
  });
});

test('the root of a log is that of its first events, or of all', async () => {
  expect(await rootOfLog(log, signal, 0)).toEqual(headOf(0));
  expect(await rootOfLog(log, signal, 6)).toEqual(headOf(6));
  expect(await rootOfLog(log, signal)).toEqual(headOf(7));
  await expect(rootOfLog(log, signal, 8)).rejects.toThrow(
    new NotProven('the log has 7 events, fewer than 8'),
  );
});
