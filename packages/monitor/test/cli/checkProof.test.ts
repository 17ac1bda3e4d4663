import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { entryLeafHash, MerkleTree, nodeHash } from '../../../tlog/src/merkle/merkleTree.ts';
import { encodeHash } from '../../../tlog/src/notes/encoding.ts';
import { formatInclusionProof } from '../../../tlog/src/notes/proof.ts';
import { formatVerifierKey } from '../../../tlog/src/notes/signedNote.ts';
import { signCheckpoint, signNote } from '../../../tlog/src/sign/signCheckpoint.ts';
import { keyNamed } from '../../../tlog/test/notes/keys.ts';
import { cosignatureKey, witnessKey } from '../../../tlog/test/witness/cosign.ts';
import { readText } from '../../../transparency-log/src/digest/readText.ts';
import { checkProof } from '../../src/cli/checkProof.ts';
import { signed } from '../checking.ts';
import { cosigned, KEY, NOW, ORIGIN, toEntry, VERIFIER_KEY } from '../fakeLog.ts';

const NAMES = ['w1.example', 'w2.example', 'w3.example'];
const extra = Buffer.from(toEntry(1));
const leafOf = (text: Buffer): string => entryLeafHash(readText(text).entry);
const head = { size: 1, root: leafOf(extra) };
const proofOf = (checkpoint: string): string =>
  formatInclusionProof({ index: 0, path: [], checkpoint, extra });

async function proven(
  proof: string | Buffer,
  options: {
    key?: string;
    origin?: string;
    witness?: string[];
    quorum?: string;
    expect?: string;
    record?: string;
  } = {},
) {
  const input = (async function* () {
    yield Buffer.from(proof);
  })();
  const key = formatVerifierKey(VERIFIER_KEY);
  return checkProof(input, { key, ...options }, () => {});
}

test('a receipt prints what is proven, also of a file that mail or Windows has changed', async () => {
  const proof = proofOf(signed(head));
  for (const text of [proof, `\ufeff${proof.replaceAll('\n', '\r\n')}`])
    expect(await proven(text, { key: `${formatVerifierKey(VERIFIER_KEY)}\r\n` })).toMatch(
      /^event ".*" of "plant-alice\/1" with the data {.*"name":"Fern".*} is at index 0 of the log /,
    );
});

describe('a receipt of a record of erased events', () => {
  const textOf = (data: object): Buffer =>
    Buffer.from(
      JSON.stringify({ data, id: '9', metadata: {}, revision: '0', stream: 'records', type: 'EventsErased' }),
    );
  /** The receipts of an event and of a record with this data, of a log of these two. */
  function receipts(data: object) {
    const [first, second] = [leafOf(extra), leafOf(textOf(data))];
    const checkpoint = signed({ size: 2, root: nodeHash(first, second) });
    const event = formatInclusionProof({ index: 0, path: [second], checkpoint, extra });
    const record = formatInclusionProof({ index: 1, path: [first], checkpoint, extra: textOf(data) });
    const file = join(tempDir(), 'record.tlog-proof');
    writeFileSync(file, record);
    return { event, record, file };
  }

  test('prints what the record names', async () => {
    const { event, record, file } = receipts({ erased: [0] });
    expect(await proven(record)).toMatch(
      /^record 1 names 1 event \(0\) as erased, in the log plants\.example\/log 2:[\da-f]{64}$/,
    );
    expect(await proven(event)).toMatch(/ is at index 0 of the log .* 2:[\da-f]{64}$/);
    expect(await proven(event, { record: file })).toMatch(/; record 1 names it as erased$/);
  });

  test.each([{ erased: [1] }, { erased: ['0'] }, { erased: [0], more: 1 }])(
    'is that of an event with %j, which is a false record',
    async (data) => {
      const { event, record, file } = receipts(data);
      expect(await proven(record)).toMatch(/^event "9" of "records" with the data .* is at index 1 of /);
      await expect(proven(event, { record: file })).rejects.toThrow(
        `${file} is not the receipt of a record of erased events`,
      );
    },
  );

  test('of another event says that it does not name it', async () => {
    const { record, file } = receipts({ erased: [0] });
    expect(await proven(proofOf(signed(head)), { record: file })).toMatch(/; record 1 names it as erased$/);
    writeFileSync(file, record.replace('index 1', 'index 0'));
    await expect(proven(proofOf(signed(head)), { record: file })).rejects.toThrow('the proof is invalid');
    await expect(proven(proofOf(signed(head)), { record: `${file}x` })).rejects.toThrow(
      /^cannot use .* of --record: ENOENT/,
    );
  });
});

test.each([
  ['is no text of an event', Buffer.from('\u001b[2J')],
  ['has a member twice', Buffer.from(`${extra}`.replace('"id"', '"id":"1","id"'))],
  ['has spaces', Buffer.from(`${extra}`.replace('"id":', '"id": '))],
])('a proof whose extra data %s is refused', async (_, text) => {
  const proof = proofOf(signed(head)).replace(extra.toString('base64'), text.toString('base64'));
  await expect(proven(proof)).rejects.toThrow('it is not the text of an event in its canonical form');
});

test('a proof of a log whose origin is not the name of its key requires --origin', async () => {
  const note = signNote(`other.example\n1\n${encodeHash(head.root)}\n`, { name: ORIGIN, key: KEY });
  await expect(proven(proofOf(note))).rejects.toThrow(
    'belongs to the log other.example, not to plants.example/log',
  );
  expect(await proven(proofOf(note), { origin: 'other.example' })).toContain('of the log other.example 1:');
  await expect(proven(proofOf(signed(head)), { origin: 'other.example' })).rejects.toThrow(
    'not to other.example',
  );
});

describe('with a policy', () => {
  const witness = NAMES.map(witnessKey);
  const otherKey = formatVerifierKey(cosignatureKey({ name: 'w1.example', key: keyNamed('w4') }));

  test('a proof whose checkpoint has a quorum of cosignatures is valid, and its witnesses are named', async () => {
    const note = cosigned(cosigned(signed(head), ['w3.example'], 90), ['w1.example', 'other.example']);
    expect(await proven(proofOf(note), { witness })).toMatch(
      /is at index 0 of the log plants\.example\/log 1:[\da-f]{64}; cosigned by 2 of 3 witnesses: w1\.example at 2026-06-01T00:00:00\.000Z, w3\.example at 2026-05-31T23:58:30\.000Z$/,
    );
    await expect(proven(proofOf(note), { witness, quorum: '3' })).rejects.toThrow(
      /^it has 2 of 3 required cosignatures$/,
    );
    const early = cosigned(signed(head), ['w1.example'], NOW.getTime() / 1_000 - 1);
    expect(await proven(proofOf(early), { witness, quorum: '1' })).toContain('w1.example at 1970-01-01T');
    for (const secondsAgo of [-3_600, NOW.getTime() / 1_000 - 9e15]) {
      const future = cosigned(signed(head), ['w1.example'], secondsAgo, new Date());
      await expect(proven(proofOf(future), { witness, quorum: '1' })).rejects.toThrow(
        /it has 0 of 1 required cosignatures, and 1 whose time is in the future$/,
      );
    }
  });

  test('a consistency proof is checked in the same way', async () => {
    const proof = (note: string): string => `old 0\n\n${note}`;
    const expected = { witness, expect: `0:${new MerkleTree().root()}` };
    expect(await proven(proof(cosigned(signed(head), NAMES)), expected)).toMatch(
      /cosigned by 3 of 3 witnesses/,
    );
    await expect(proven(proof(signed(head)), expected)).rejects.toThrow(
      /it has 0 of 2 required cosignatures/,
    );
  });

  test.each([
    [{ quorum: '1' }, /^--quorum requires --witness\.$/],
    [{ witness, quorum: '4' }, /^the quorum must be a number from 1 to 3/],
    [{ witness: ['w1.example'] }, /verifier key/],
    [{ witness: [witness[0], witness[0]] as string[] }, /the same key/],
    [{ witness: [witness[0], otherKey] as string[] }, /the same name/],
  ])('%j is refused', async (options, message) => {
    await expect(proven(proofOf(signed(head)), options)).rejects.toThrow(message);
  });
});

test('what a proof states is printed with control characters escaped, also if it is refused', async () => {
  const note = signNote(`evil\u009b2J\n1\n${encodeHash(head.root)}\n`, { name: ORIGIN, key: KEY });
  await expect(proven(proofOf(note))).rejects.toThrow(
    /^the checkpoint belongs to the log evil\\u\{9b\}2J, not to plants\.example\/log$/,
  );
});

const consistency = `old 0\n\n${signed(head)}`;
const NO_EXPECT = /^not an inclusion proof; a consistency proof requires --expect$/;
test.each<[string, string | Buffer, RegExp]>([
  ['no input', '', NO_EXPECT],
  ['a consistency proof alone', consistency, NO_EXPECT],
  ['binary data', Buffer.of(0, 255), /^the text is not UTF-8$/],
  [
    'a proof of another log',
    proofOf(signCheckpoint(head, { origin: 'other.example', key: KEY })),
    /^there is no signature of plants\.example\/log\+/,
  ],
  ['an input that is too large', Buffer.alloc(65 * 1024 * 1024, ' '), /^not a proof: it is too large$/],
])('%s is refused', async (_, input, message) => {
  await expect(proven(input)).rejects.toThrow(message);
});

test('a proof for a size other than expected is refused, also if a checkpoint file gives the size', async () => {
  const file = join(tempDir(), 'checkpoint');
  writeFileSync(file, signed({ size: 2, root: head.root }));
  for (const expected of [file, `2:${head.root}`]) {
    await expect(proven(proofOf(signed(head)), { expect: expected })).rejects.toThrow(
      /^the proof is for 1:.*, not for the expected 2:/,
    );
    await expect(proven(consistency, { expect: expected })).rejects.toThrow(
      /^the proof starts from 0 events, .* has 2$/,
    );
  }
});

test('a file of --expect that is not a checkpoint is refused', async () => {
  const file = join(tempDir(), 'checkpoint');
  const refused = (path: string) => expect(proven(consistency, { expect: path })).rejects;
  await refused(file).toThrow(
    /^--expect must be SIZE:ROOT, .* or a file with a checkpoint; the file ".*\/checkpoint" does not exist\.$/,
  );
  await refused(tempDir()).toThrow(/^cannot read the file of --expect: it is not/);
  writeFileSync(file, Buffer.alloc(1_000_001, ' '));
  await refused(file).toThrow(/^cannot read the file of --expect: it is not/);
  writeFileSync(file, 'Fern\n');
  await refused(file).toThrow(/^the text is not a signed note$/);
});
