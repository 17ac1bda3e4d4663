import { hash, verify } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NotVerified } from '../../src/notes/notVerified.ts';
import { formatVerifierKey, openNote, parseVerifierKey } from '../../src/notes/signedNote.ts';
import { signNote, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { keyNamed, privateKeyOf, publicKeyOf } from './keys.ts';
import { ENOCH, EXAMPLE, PETER, SUMDB, TEXT } from './vectors.ts';

const peter = parseVerifierKey(PETER.vkey);
const enoch = parseVerifierKey(ENOCH.vkey);
const LOG = { name: 'plants.example/log', key: keyNamed('log') };
const logKey = toVerifierKey(LOG.name, LOG.key);
const NOTE = signNote('one\n\ntwo\n', LOG);

describe('the published notes', () => {
  test.each([
    ['the example of the specification', EXAMPLE.note, EXAMPLE.vkey, EXAMPLE.text],
    ['that of sumdb/note', `${TEXT}\n${PETER.line}`, PETER.vkey, TEXT],
    ['that of sumdb/note, with two signatures', `${TEXT}\n${PETER.line}${ENOCH.line}`, ENOCH.vkey, TEXT],
    [
      'a checkpoint of sum.golang.org',
      SUMDB.checkpoint,
      SUMDB.vkey,
      SUMDB.checkpoint.split('\n\n')[0]?.concat('\n'),
    ],
  ])('%s is opened with its key', async (_, note, vkey, text) => {
    expect(await openNote(note, parseVerifierKey(vkey))).toBe(text);
    expect(formatVerifierKey(parseVerifierKey(vkey))).toBe(vkey);
  });

  test('that of sumdb/note is signed with its key', () => {
    const key = privateKeyOf(Buffer.from(PETER.seed, 'base64').subarray(1));
    expect(signNote(TEXT, { name: 'PeterNeumann', key })).toBe(`${TEXT}\n${PETER.line}`);
    expect(formatVerifierKey(toVerifierKey('PeterNeumann', key))).toBe(PETER.vkey);
  });
});

test('a note is verified by node:crypto from the verifier key alone', async () => {
  const [name, id, encoded = ''] = formatVerifierKey(logKey).split('+', 3);
  const raw = Buffer.from(formatVerifierKey(logKey).slice(`${name}+${id}+`.length), 'base64').subarray(1);
  expect(encoded).toMatch(/^A/);
  const publicKey = publicKeyOf(raw.toString('hex'));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.stringMatching(/^[ -~\u00e4\u2028\u{1f331}]*$/u)), async (lines) => {
      const text = `${lines.join('\n')}\n`;
      const note = signNote(text, LOG);
      expect(note.startsWith(`${text}\n— ${name} `)).toBe(true);
      const signature = Buffer.from(note.slice(`${text}\n— ${name} `.length), 'base64');
      expect(signature.toString('hex', 0, 4)).toBe(id);
      expect(verify(null, Buffer.from(text), publicKey, signature.subarray(4))).toBe(true);
      expect(await openNote(note, logKey)).toBe(text);
    }),
    { numRuns: 50 },
  );
  expect(hash('sha256', Buffer.concat([Buffer.from(`${name}\n\x01`), raw])).slice(0, 8)).toBe(id);
});

describe('the signatures of a note', () => {
  test('of other keys are ignored, also with the same name or the same ID', async () => {
    const sameName = signNote(TEXT, { name: LOG.name, key: keyNamed('other') }).slice(TEXT.length + 1);
    const id = Buffer.from(logKey.id, 'hex');
    const sameId = `— other.example ${Buffer.concat([id, Buffer.alloc(64)]).toString('base64')}\n`;
    const note = `${signNote(TEXT, LOG)}${PETER.line}${sameName}${sameId}`;
    expect(await openNote(note, logKey)).toBe(TEXT);
    await expect(openNote(`${TEXT}\n${sameName}${sameId}`, logKey)).rejects.toThrow(
      new NotVerified(`there is no signature of ${LOG.name}+${logKey.id}`, 'unsigned'),
    );
  });

  test('of several keys: each key opens the note, unless its own signature is invalid', async () => {
    const note = `${TEXT}\n${PETER.line}${ENOCH.line}`;
    const damaged = note.replace('rwz+eBzm', 'rwz+eBzn');
    for (const [text, key] of [
      [note, peter],
      [note, enoch],
      [damaged, peter],
    ] as const)
      expect(await openNote(text, key)).toBe(TEXT);
    await expect(openNote(damaged, enoch)).rejects.toThrow(
      new NotVerified('the signature of EnochRoot is invalid', 'contradiction'),
    );
  });

  test('may be duplicates; if one of them is invalid, so is the note', async () => {
    const note = signNote(TEXT, LOG);
    const line = note.slice(TEXT.length + 1);
    const bytes = Buffer.from(line.split(' ')[2] ?? '', 'base64');
    bytes.writeUInt8(bytes.readUInt8(20) ^ 1, 20);
    const invalid = `— ${LOG.name} ${bytes.toString('base64')}\n`;
    expect(await openNote(note + line, logKey)).toBe(TEXT);
    for (const lines of [line + invalid, invalid + line])
      await expect(openNote(`${TEXT}\n${lines}`, logKey)).rejects.toThrow(/signature of .* is invalid/);
  });

  test('may be up to 100', async () => {
    expect(await openNote(`${TEXT}\n${PETER.line.repeat(100)}`, peter)).toBe(TEXT);
    await expect(openNote(`${TEXT}\n${PETER.line.repeat(101)}`, peter)).rejects.toThrow(
      new NotVerified('the note has too many signatures'),
    );
  });
});

describe('a note is refused', () => {
  const [start, signature = ''] = [NOTE.slice(0, NOTE.indexOf('—')), NOTE.slice(NOTE.indexOf('—'))];
  const base64 = signature.trimEnd().split(' ')[2] ?? '';

  test.each([
    ['empty', ''],
    ['without signatures', start],
    ['without a blank line', NOTE.replaceAll('\n\n', '\n')],
    ['without its last line feed', NOTE.slice(0, -1)],
    ['with CR LF in its text', start.replace('one\n', 'one\r\n') + signature],
    ['with a control character', `\x01${NOTE}`],
    ['with a NUL in its text', NOTE.replace('one', 'o\0e')],
    ['with an unpaired surrogate', NOTE.replace('one', '\ud83c')],
    ['with text after the signatures', `${NOTE}more\n`],
    ['with a blank line between signatures', `${NOTE}\n${signature}`],
    ['with a byte order mark', `\ufeff${NOTE}`],
    ['with a hyphen for the dash', NOTE.replace('—', '-')],
    ['with two spaces', NOTE.replace(' plants', '  plants')],
    ['with a no-break space in the key name', NOTE.replace('plants.', 'plants\u00a0')],
    ['with a plus in the key name', NOTE.replace('plants.', 'plants+')],
    ['with a signature of four bytes', `${start}— ${LOG.name} ${base64.slice(0, 4)}AA==\n`],
    ['with a truncated signature', NOTE.replace(base64, `${base64.slice(0, -8)}`)],
    ['with Base64 without padding', NOTE.replace('==\n', '\n').replace('=\n', '\n')],
    ['with Base64 for URLs', NOTE.replace(base64, Buffer.from(base64, 'base64').toString('base64url'))],
    ['with a signature that is not Base64', NOTE.replace(base64, '!!!!!!!!')],
    ['larger than a million bytes', signNote(`${'x'.repeat(1_000_000)}\n`, LOG)],
    ['of another log', signNote('one\n', { name: 'other.example', key: keyNamed('other') })],
  ])('%s', async (_, note) => {
    await expect(openNote(note, logKey)).rejects.toThrow(NotVerified);
  });

  test('with any bit flipped', async () => {
    const bytes = Buffer.from(NOTE);
    const accepted: string[] = [];
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt8(damaged.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      try {
        accepted.push(await openNote(damaged.toString(), logKey));
      } catch (error) {
        expect(error).toBeInstanceOf(NotVerified);
      }
    }
    expect(accepted).toEqual([]);
  });
});

test.each([
  ['without a line feed at its end', 'one', LOG.name],
  ['empty', '', LOG.name],
  ['with a control character', 'o\re\n', LOG.name],
  ['with an unpaired surrogate', '\ud83c\n', LOG.name],
  ['by a key without a name', 'one\n', ''],
  ['by a key with a space in its name', 'one\n', 'two words'],
  ['by a key with a plus in its name', 'one\n', 'a+b'],
])('a text is not signed: %s', (_, text, name) => {
  expect(() => signNote(text, { ...LOG, name })).toThrow(TypeError);
});

test.each([
  ['', 'the key must be a verifier key'],
  ['example.com/foo+530d903a+', 'the key must be a verifier key'],
  [
    EXAMPLE.vkey.replace('530d903a', '530d903b'),
    'the ID of the verifier key does not match its name and key',
  ],
  [EXAMPLE.vkey.replace('+Aeky', '+BOky'), 'the type of the verifier key is not ed25519'],
  [`PRIVATE+KEY+${EXAMPLE.vkey}`, 'the key must be a verifier key'],
])('%j is not a verifier key', (vkey, message) => {
  expect(() => parseVerifierKey(vkey)).toThrow(NotVerified);
  expect(() => parseVerifierKey(vkey)).toThrow(message);
});
