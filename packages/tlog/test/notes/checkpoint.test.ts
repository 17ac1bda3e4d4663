import { expect, test } from 'vitest';
import { leafHash, MerkleTree } from '../../src/merkle/merkleTree.ts';
import { openCheckpoint, readUnverifiedCheckpoint } from '../../src/notes/checkpoint.ts';
import { NotVerified } from '../../src/notes/notVerified.ts';
import { parseVerifierKey } from '../../src/notes/signedNote.ts';
import { signCheckpoint, signNote, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { keyNamed } from './keys.ts';
import { SUMDB } from './vectors.ts';

const LOG = { origin: 'plants.example/log', key: keyNamed('log') };
const logKey = toVerifierKey(LOG.origin, LOG.key);
const HEAD = { size: 1, root: leafHash('Fern') };
const EMPTY = { size: 0, root: new MerkleTree().root() };
const ROOT = Buffer.from(HEAD.root, 'hex').toString('base64');

test('a checkpoint has the origin, the size and the root, and is signed under the name of the origin', async () => {
  const checkpoint = signCheckpoint(HEAD, LOG);
  expect(checkpoint).toMatch(
    RegExp(`^plants\\.example/log\n1\n${ROOT.replace(/[+]/g, '\\+')}\n\n— plants\\.example/log [\\w+/=]+\n$`),
  );
  expect(await openCheckpoint(checkpoint, logKey)).toEqual({ note: checkpoint, origin: LOG.origin, ...HEAD });
  expect(signCheckpoint(HEAD, LOG)).toBe(checkpoint);
  const empty = signCheckpoint(EMPTY, LOG);
  expect(await openCheckpoint(empty, logKey)).toEqual({ note: empty, origin: LOG.origin, ...EMPTY });
});

test('a checkpoint of the Go checksum database can be read; its key is not named after its origin', async () => {
  expect(readUnverifiedCheckpoint(SUMDB.checkpoint)).toEqual({
    note: SUMDB.checkpoint,
    origin: 'go.sum database tree',
    size: 35_225_469,
    root: Buffer.from('vt5T6GaLCXvyHFl9VUvvItR43XZxfLgftEcTyO3eJCQ=', 'base64').toString('hex'),
  });
  await expect(openCheckpoint(SUMDB.checkpoint, parseVerifierKey(SUMDB.vkey))).rejects.toThrow(
    new NotVerified(
      'the checkpoint belongs to the log go.sum database tree, not to sum.golang.org',
      'unsigned',
    ),
  );
});

test('lines after the root, and signatures of witnesses, are ignored', async () => {
  const note = signNote(`${LOG.origin}\n1\n${ROOT}\nmore\nand more\n`, { name: LOG.origin, key: LOG.key });
  const witness = signNote('x\n', { name: 'witness.example', key: keyNamed('witness') }).slice(3);
  const signed = note + witness;
  expect(await openCheckpoint(signed, logKey)).toEqual({ note: signed, origin: LOG.origin, ...HEAD });
});

test.each([
  ['without a size', [LOG.origin], 'the note is not a checkpoint'],
  ['without a root', [LOG.origin, '1'], 'the note is not a checkpoint'],
  ['without an origin', ['', '1', ROOT], 'the note is not a checkpoint'],
  ['with a blank line', [LOG.origin, '1', ROOT, '', 'more'], 'the note is not a checkpoint'],
  [
    'of another origin',
    ['other.example', '1', ROOT],
    'the checkpoint belongs to the log other.example, not to',
  ],
  ['with a leading zero', [LOG.origin, '01', ROOT], 'the size is not a number'],
  ['with an exponent', [LOG.origin, '1e3', ROOT], 'the size is not a number'],
  ['with a size beyond 2^53', [LOG.origin, '9007199254740992', ROOT], 'the size is too large'],
  ['with a size of a million digits', [LOG.origin, '9'.repeat(900_000), ROOT], 'the size is too large'],
  ['with a short root', [LOG.origin, '1', ROOT.slice(4)], 'a hash has 29 bytes, not 32'],
  ['with surplus bits', [LOG.origin, '1', ROOT.replace(/.=/, '/=')], 'a hash is not Base64'],
  ['of an empty log with another root', [LOG.origin, '0', ROOT], 'but not the root of an empty log'],
])('a signed note is not a checkpoint %s', async (_, lines, message) => {
  const note = signNote(`${lines.join('\n')}\n`, { name: LOG.origin, key: LOG.key });
  await expect(openCheckpoint(note, logKey)).rejects.toThrow(NotVerified);
  await expect(openCheckpoint(note, logKey)).rejects.toThrow(message);
});

test('a checkpoint signed with another key under the same name is refused', async () => {
  const forged = signCheckpoint(HEAD, { origin: LOG.origin, key: keyNamed('other') });
  await expect(openCheckpoint(forged, logKey)).rejects.toThrow(
    `there is no signature of ${LOG.origin}+${logKey.id}`,
  );
  expect(readUnverifiedCheckpoint(forged)).toEqual({ note: forged, origin: LOG.origin, ...HEAD });
});
