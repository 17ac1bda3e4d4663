import { generateKeyPairSync, sign } from 'node:crypto';
import { expect, test } from 'vitest';
import { formatSignature, parseVerifierKey, verifierKey } from '../../src/notes/signedNote.ts';
import { signCheckpoint, signNote, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { canVerify, verifyCosignatures } from '../../src/witness/cosignature.ts';
import { keyNamed, privateKeyOf } from '../notes/keys.ts';
import { cosign, cosignatureKey } from './cosign.ts';
import { ARCHE, COACH_AND_HORSES, SIGSUM_COSIGNATURE } from './vectors.ts';

const [NAVIGLI, NAVIGLI_ML_DSA] = COACH_AND_HORSES.vkeys.map((vkey) =>
  parseVerifierKey(vkey, ['cosignature', 'mlDsa44']),
) as [ReturnType<typeof verifierKey>, ReturnType<typeof verifierKey>];
const hasMlDsa44 = canVerify(NAVIGLI_ML_DSA);

test('published cosignatures with Ed25519 are verified', () => {
  const keys = ARCHE.vkeys.map((vkey) => parseVerifierKey(vkey, ['cosignature']));
  const cosignatures = verifyCosignatures(ARCHE.note, keys);
  expect(cosignatures.map(({ key, time }) => [key, time])).toEqual(keys.map((key) => [key, ARCHE.time]));
  expect(cosignatures.map(({ line }) => line).join('')).toBe(ARCHE.note.split('\n').slice(-5).join('\n'));
  expect(() => verifyCosignatures(ARCHE.note.replace('\n1432088532\n', '\n42\n'), keys)).toThrow(
    'is invalid',
  );
});

test.runIf(hasMlDsa44)('published cosignatures with ML-DSA-44 are verified', () => {
  const { note, time } = COACH_AND_HORSES;
  expect(verifyCosignatures(note, [NAVIGLI, NAVIGLI_ML_DSA])).toMatchObject([{ time }, { time }]);
  const altered = note.replace('\n185550722\n', '\n42\n');
  expect(() => verifyCosignatures(altered, [NAVIGLI_ML_DSA])).toThrow('is invalid');
});

test('the cosignatures of these tests are like a published one', () => {
  const { name, text, line } = SIGSUM_COSIGNATURE;
  const key = privateKeyOf(Buffer.concat([Buffer.of(17), Buffer.alloc(31)]));
  expect(cosign(signNote(text, { name: 'example.org/log', key }), { name, key }, 1234)).toBe(line);
});

const ORIGIN = 'log.example';
const NOTE = signCheckpoint({ size: 5, root: 'ab'.repeat(32) }, { origin: ORIGIN, key: keyNamed('log') });
const WITNESS = { name: 'witness.example/w1', key: keyNamed('w1') };
const KEY = cosignatureKey(WITNESS);
const line = (time: number): string => cosign(NOTE, WITNESS, time);

test('the newest cosignature of a key counts; those of other keys do not', () => {
  const other = cosign(NOTE, { name: WITNESS.name, key: keyNamed('w2') }, 9);
  const note = NOTE + line(2) + line(3) + other + line(1);
  expect(verifyCosignatures(note, [KEY])).toEqual([{ key: KEY, time: 3, line: line(3) }]);
  const noteKey = toVerifierKey(WITNESS.name, WITNESS.key); // the same key, for signatures of another type
  expect(verifyCosignatures(note, [noteKey])).toEqual([]);
});

const uint64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
};
const zeros = (time: bigint, length = 64): string =>
  formatSignature(KEY, Buffer.concat([uint64(time), Buffer.alloc(length)]));

test.each([
  ['is of another time', line(3).replace('AAAAAAA', 'AAAAAAB')],
  ['is of another text', cosign(NOTE.replace('\n5\n', '\n6\n'), WITNESS, 3)],
  ['has no time', zeros(0n)],
  ['has a time beyond 2^53', zeros(2n ** 53n)],
  ['is too short', zeros(3n, 63)],
  ['is too long', zeros(3n, 65)],
  ['is nothing but a time', zeros(3n, 0)],
])('a note with a cosignature of the key that %s is rejected', (_, invalid) => {
  expect(() => verifyCosignatures(NOTE + line(3) + invalid, [KEY])).toThrow(
    /cosignature .*(invalid|no valid)/,
  );
});

test.runIf(hasMlDsa44).each([
  [7n, [7]],
  [0n, []],
])('with ML-DSA-44, of the times of %s count %j', (time, times) => {
  const { privateKey, publicKey } = generateKeyPairSync('ml-dsa-44');
  const pub = String(Object(publicKey.export({ format: 'jwk' })).pub);
  const key = verifierKey(WITNESS.name, Buffer.from(pub, 'base64url'), 'mlDsa44');
  const withLength = (text: string): string => `${String.fromCharCode(text.length)}${text}`;
  const [name, origin] = [`subtree/v1\n\0${withLength(WITNESS.name)}`, withLength(ORIGIN)];
  const root = Buffer.from(NOTE.split('\n')[2] ?? '', 'base64');
  const numbers = [uint64(0n), uint64(5n), root];
  const message = Buffer.concat([Buffer.from(name), uint64(time), Buffer.from(origin), ...numbers]);
  const note = NOTE + formatSignature(key, Buffer.concat([uint64(time), sign(null, message, privateKey)]));
  expect(verifyCosignatures(note, [key]).map((one) => one.time)).toEqual(times);
});

test('a cosignature by a key that this version of Node cannot import does not count, and does no harm', () => {
  const key = verifierKey(WITNESS.name, Buffer.alloc(7), 'mlDsa44');
  expect(canVerify(key)).toBe(false);
  const note = NOTE + formatSignature(key, Buffer.alloc(2_428, 1)) + line(3);
  expect(verifyCosignatures(note, [key, KEY])).toMatchObject([{ time: 3, key: KEY }]);
});
