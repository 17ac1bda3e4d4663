import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toHex } from '../../src/bytes.ts';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import { openCheckpoint } from '../../src/notes/checkpoint.ts';
import { decodeUtf8 } from '../../src/notes/encoding.ts';
import { NotVerified } from '../../src/notes/notVerified.ts';
import {
  formatConsistencyProof,
  formatInclusionProof,
  openConsistencyProof,
  openInclusionProof,
} from '../../src/notes/proof.ts';
import { signCheckpoint, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { MTH, PATH, PROOF } from '../merkle/rfc9162.ts';
import { keyNamed, publicKeyOf } from './keys.ts';
import { WITNESSED } from './vectors.ts';

const LOG = { origin: 'plants.example/log', key: keyNamed('log') };
const logKey = toVerifierKey(LOG.origin, LOG.key);
const ENTRIES = Array.from({ length: 20 }, (_, i) => `{"plant":${i},"name":"Fern 🌱"}`);
const headOf = (size: number) => ({ size, root: MTH(ENTRIES.slice(0, size)) });
const checkpointOf = (size: number): string => signCheckpoint(headOf(size), LOG);

function inclusionOf(index: number, size: number): string {
  const path = PATH(index, ENTRIES.slice(0, size));
  const extra = Buffer.from(ENTRIES[index] as string);
  return formatInclusionProof({ index, path, checkpoint: checkpointOf(size), extra });
}
function consistencyOf(from: number, to: number): string {
  const path = from === 0 ? [] : PROOF(from, ENTRIES.slice(0, to));
  return formatConsistencyProof({ from, path, checkpoint: checkpointOf(to) });
}
/** The extra data is the entry. */
const openInclusion = (text: string) => openInclusionProof(text, logKey, toHex);
const openConsistency = (text: string, size: number) => openConsistencyProof(text, headOf(size), logKey);

/** A hash of a proof, 32 bytes in Base64. */
const HASH = Buffer.alloc(32, 7).toString('base64');

describe('an inclusion proof', () => {
  test('has the lines of the specification', () => {
    const [hash] = PATH(1, ENTRIES.slice(0, 2)) as [string];
    const base64 = Buffer.from(hash, 'hex').toString('base64');
    const extra = Buffer.from(ENTRIES[1] as string).toString('base64');
    expect(inclusionOf(1, 2)).toBe(
      `c2sp.org/tlog-proof@v1\nextra ${extra}\nindex 1\n${base64}\n\n${checkpointOf(2)}`,
    );
    expect(formatInclusionProof({ index: 0, path: [], checkpoint: 'checkpoint\n' })).toBe(
      'c2sp.org/tlog-proof@v1\nindex 0\n\ncheckpoint\n', // as in github.com/transparency-dev/formats
    );
  });

  test('is valid for its entry, index and checkpoint', async () => {
    for (const [index, size] of [
      [0, 1],
      [4, 7],
      [7, 20],
    ] as const) {
      const { extra, ...opened } = await openInclusion(inclusionOf(index, size));
      expect(opened).toEqual({
        index,
        checkpoint: { note: expect.any(String), origin: LOG.origin, ...headOf(size) },
      });
      expect(decodeUtf8(extra)).toBe(ENTRIES[index]);
    }
  });

  test('may have extra data that is not text, of any size', async () => {
    const extra = new Uint8Array(100_000).fill(255);
    const root = leafHash(extra);
    const checkpoint = signCheckpoint({ size: 1, root }, LOG);
    const proof = formatInclusionProof({ index: 0, path: [], checkpoint, extra });
    expect((await openInclusion(proof)).extra).toEqual(extra);
  });

  const proof = inclusionOf(4, 7);
  const [start, extra = '', index = '', ...rest] = proof.split('\n');
  const lines = (...changed: string[]): string => [...changed, ...rest].join('\n');
  const path = rest.slice(0, 3);

  test.each([
    ['empty', '', 'the text is not a proof'],
    ['a checkpoint', checkpointOf(7), 'the text is not a proof'],
    ['a consistency proof', consistencyOf(3, 7), 'the text is not a proof'],
    ['of another version', proof.replace('@v1', '@v2'), 'the text is not an inclusion proof'],
    ['with a line before it', `\n${proof}`, 'the text is not an inclusion proof'],
    ['without an index', lines(start as string, extra), 'the text is not a proof'],
    ['without extra data', lines(start as string, index), 'the proof has no extra data'],
    ['with the entry after the index', lines(start as string, index, extra), 'a hash is not Base64'],
    ['with an entry that is not Base64', proof.replace('extra ', 'extra !'), 'the extra data is not Base64'],
    ['with a leading zero', proof.replace('index 4', 'index 04'), 'the index is not a number'],
    ['with a huge index', proof.replace('index 4', 'index 18446744073709551615'), 'the index is too large'],
    ['with another index', proof.replace('index 4', 'index 5'), 'the proof is invalid'],
    ['with an index beyond the size', proof.replace('index 4', 'index 7'), 'the proof is invalid'],
    ['without hashes', proof.replace(`${path.join('\n')}\n`, ''), 'the proof is invalid'],
    ['with a hash too many', proof.replace(path[0] as string, `${HASH}\n${path[0]}`), 'the proof is invalid'],
    ['with 64 hashes', proof.replace(path.join('\n'), Array(64).fill(HASH).join('\n')), 'too many hashes'],
    ['with a short hash', proof.replace(path[0] as string, HASH.slice(0, 40)), 'a hash has 30 bytes, not 32'],
    ['without a checkpoint', `${proof.split('\n\n')[0]}\n\n`, 'the text is not a signed note'],
    ['with another entry', proof.replace(extra, `extra ${HASH}`), 'the proof is invalid'],
    [
      'with the checkpoint of another size',
      proof.replace(checkpointOf(7), checkpointOf(8)),
      'proof is invalid',
    ],
  ])('is refused: %s', async (_, text, message) => {
    await expect(openInclusion(text)).rejects.toThrow(NotVerified);
    await expect(openInclusion(text)).rejects.toThrow(message);
  });
});

describe('a consistency proof', () => {
  test('is valid from any size, also from 0', async () => {
    for (const [from, to] of [
      [0, 0],
      [0, 3],
      [3, 3],
      [7, 20],
    ] as const) {
      const text = consistencyOf(from, to);
      expect(text).toMatch(RegExp(`^old ${from}\n(?:[\\w+/]{43}=\n)*\nplants\\.example/log\n${to}\n`));
      expect(await openConsistency(text, from)).toEqual({
        note: expect.any(String),
        origin: LOG.origin,
        ...headOf(to),
      });
    }
  });

  test('of a Sigsum log is valid: the requests of the tests of litewitness', async () => {
    const key = toVerifierKey(WITNESSED.name, publicKeyOf(WITNESSED.publicKey));
    const one = await openCheckpoint(WITNESSED.first, key);
    const three = await openConsistencyProof(WITNESSED.from1to3, one, key);
    const five = await openConsistencyProof(WITNESSED.from3to5, three, key);
    expect([one.size, three.size, five.size]).toEqual([1, 3, 5]);
    // Those that the tests expect to be refused.
    const refused = [
      [WITNESSED.from1to3.replace('6go=', '6gx='), 'a signature is not Base64'],
      [WITNESSED.from1to3.replace('AAA=\n\n', 'ABA=\n\n'), 'the proof is invalid'],
      [WITNESSED.from1to3.replaceAll('e562', 'e563'), 'there is no signature of'],
      [WITNESSED.from1to3.replace(/^old 1\n(.{44}\n){2}/, 'old 1\n'), 'the proof is invalid'],
      [WITNESSED.from3to5, 'the proof starts from 3 events, but the earlier checkpoint has 1'],
    ] as const;
    for (const [text, message] of refused)
      await expect(openConsistencyProof(text, one, key)).rejects.toThrow(message);
  });

  const proof = consistencyOf(3, 7);
  const path = proof.split('\n').slice(1, 5);

  test.each([
    ['empty', '', 'the text is not a proof'],
    ['a checkpoint', checkpointOf(7), 'the text is not a proof'],
    ['an inclusion proof', inclusionOf(3, 7), 'the text is not a proof'],
    ['with a line before it', `x\n${proof}`, 'the text is not a consistency proof'],
    [
      'from another size',
      proof.replace('old 3', 'old 4'),
      'starts from 4 events, but the earlier checkpoint has 3',
    ],
    ['with a huge size', proof.replace('old 3', 'old 9007199254740993'), 'the old size is too large'],
    ['without hashes', proof.replace(`${path.join('\n')}\n`, ''), 'the proof is invalid'],
    ['with a hash too many', proof.replace(path[3] as string, `${path[3]}\n${HASH}`), 'the proof is invalid'],
    ['to a smaller size', proof.replace(checkpointOf(7), checkpointOf(2)), 'the proof is invalid'],
    [
      'to another root',
      proof.replace(checkpointOf(7), signCheckpoint({ ...headOf(6), size: 7 }, LOG)),
      'invalid',
    ],
  ])('is refused: %s', async (_, text, message) => {
    await expect(openConsistency(text, 3)).rejects.toThrow(NotVerified);
    await expect(openConsistency(text, 3)).rejects.toThrow(message);
  });

  test('is refused from another root of the same size, and from size 0 with hashes', async () => {
    const other = { size: 3, root: headOf(4).root };
    await expect(openConsistencyProof(proof, other, logKey)).rejects.toThrow('the proof is invalid');
    const same = consistencyOf(3, 3);
    await expect(openConsistencyProof(same, other, logKey)).rejects.toThrow('the proof is invalid');
    const fromNone = consistencyOf(0, 3).replace('old 0\n', `old 0\n${HASH}\n`);
    await expect(openConsistency(fromNone, 0)).rejects.toThrow('the proof is invalid');
  });
});

test('no proof is valid with a bit flipped in any byte', async () => {
  const [inclusion, consistency] = [inclusionOf(4, 7), consistencyOf(3, 7)];
  const open = [
    [inclusion, openInclusion],
    [consistency, (text: string) => openConsistency(text, 3)],
  ] as const;
  for (const [text, opened] of open) {
    const accepted: string[] = [];
    const bytes = Buffer.from(text);
    for (let bit = 0; bit < 8 * bytes.length; bit += 5) {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      try {
        await opened(damaged.toString());
        accepted.push(damaged.toString());
      } catch (error) {
        expect(error).toBeInstanceOf(NotVerified);
      }
    }
    expect(accepted).toEqual([]);
  }
});

test('any text is a valid proof, or refused with a message', async () => {
  const line = fc.oneof(
    fc.constantFrom('c2sp.org/tlog-proof@v1', 'old 3', 'index 4', 'extra AA==', HASH, '', LOG.origin, '7'),
    fc.constantFrom(checkpointOf(7).split('\n').at(-2), 'index', 'old', 'extra ', '—', '\0', '\ud83c'),
    fc.string(),
  );
  const text = fc.oneof(
    fc.array(line, { maxLength: 12 }).map((lines) => lines.join('\n')),
    fc
      .tuple(fc.constantFrom(inclusionOf(4, 7), consistencyOf(3, 7), checkpointOf(7)), fc.nat(400), line)
      .map(([proof, at, added]) => `${proof.slice(0, at)}${added}${proof.slice(at)}`),
  );
  await fc.assert(
    fc.asyncProperty(text, async (any) => {
      for (const open of [openInclusion, (t: string) => openConsistency(t, 3)]) {
        try {
          expect(await open(any)).toBeDefined();
        } catch (error) {
          expect(error).toBeInstanceOf(NotVerified);
        }
      }
    }),
    { numRuns: 300 },
  );
});
