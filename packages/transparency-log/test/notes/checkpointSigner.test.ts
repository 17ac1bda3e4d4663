import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leafHash, MerkleTree } from '../../src/merkle/merkleTree.ts';
import { consistencyPath } from '../../src/merkle/proofs.ts';
import { openCheckpoint } from '../../src/notes/checkpoint.ts';
import { signCheckpoint, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import {
  CheckpointFileUnusable,
  CheckpointSigner,
  LogContradictsCheckpoint,
} from '../../src/signer/checkpointSigner.ts';
import { keyNamed } from './keys.ts';

const keyOf = (origin: string, name = 'log') => {
  const key = keyNamed(name);
  return { origin, key, verifierKey: toVerifierKey(origin, key) };
};
const KEY = keyOf('log.example');

/** A log of these events: its heads, and its proofs. */
function logOf(text: string) {
  const rootOf = (start: number, end: number): string => {
    const tree = new MerkleTree();
    for (const letter of text.slice(start, end)) tree.append(leafHash(letter));
    return tree.root();
  };
  return {
    head: (size = text.length) => ({ size, root: rootOf(0, size) }),
    async prove(from: number, to: number): Promise<string[] | undefined> {
      if (to > text.length) return undefined;
      return consistencyPath(from, to).map(({ start, end }) => rootOf(start, end));
    },
  };
}

function signerIn(dir = tempDir(), key = KEY) {
  const signer = new CheckpointSigner(key, dir);
  return {
    dir,
    file: signer.file,
    signer,
    /** Signs a log, at a size or as a whole; it is proven once `proceed` resolves. */
    async sign(text: string, size?: number, proceed?: Promise<void>): Promise<string> {
      const { head, prove } = logOf(text);
      const { note, ...signed } = await signer.sign(head(size), async (from, to) => {
        await proceed;
        return prove(from, to);
      });
      expect(signed).toEqual({ ...head(size), origin: key.origin });
      return note;
    },
    recorded: () => readFileSync(signer.file, 'utf8'),
  };
}

const sizeOf = async (note: string): Promise<number> => (await openCheckpoint(note, KEY.verifierKey)).size;

describe('a checkpoint', () => {
  test('is recorded before it is returned, also by the next process', async () => {
    const { dir, sign, recorded } = signerIn();
    for (const text of ['', 'a', 'ab', 'abcdefg']) {
      const note = await sign(text);
      expect(note).toBe(signCheckpoint(logOf(text).head(), KEY));
      expect(recorded()).toBe(note);
      expect(await signerIn(dir).sign(text)).toBe(note);
    }
    expect(readdirSync(dir).toSorted()).toEqual([`checkpoint-${KEY.verifierKey.id}`, 'checkpoint.lock']);
  });

  test('of an earlier size is signed, and not recorded', async () => {
    const { dir, sign, recorded } = signerIn();
    const last = await sign('abcde');
    for (const one of [{ sign }, signerIn(dir)])
      for (const size of [0, 1, 3, 4]) expect(await sizeOf(await one.sign('abcdefgh', size))).toBe(size);
    expect(recorded()).toBe(last);
  });

  test.each<[what: string, text: string, size?: number]>([
    ['an altered event', 'abXde'],
    ['an altered event, at an earlier size', 'aXcdefg', 3],
    ['a missing last event', 'abcd'],
    ['no events', ''],
  ])('is not signed for a log with %s', async (_, text, size) => {
    const { dir, sign, recorded } = signerIn();
    const last = await sign('abcde');
    for (const one of [{ sign }, signerIn(dir)]) {
      const error = await one.sign(text, size).catch((refusal) => refusal);
      expect(error).toBeInstanceOf(LogContradictsCheckpoint);
      expect(error.signed).toMatchObject(logOf('abcde').head());
      expect(error.head).toEqual(logOf(text).head(size));
    }
    expect(recorded()).toBe(last);
    expect(await sizeOf(await sign('abcdef'))).toBe(6);
  });

  test('is not signed with a proof of another log', async () => {
    const { signer, sign } = signerIn();
    await sign('abcde');
    const forged = signer.sign(logOf('aXcdefg').head(), logOf('abcdefg').prove);
    await expect(forged).rejects.toThrow(LogContradictsCheckpoint);
  });

  test('of another log is never signed, after any earlier checkpoints in any order', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 2, maxLength: 6 }), async (texts) => {
        const dir = tempDir();
        const heads: string[] = [];
        for (const one of texts) {
          const note = await signerIn(dir)
            .sign(one)
            .catch(() => undefined);
          if (note !== undefined) heads.push(one);
        }
        const largest = heads.toSorted((a, b) => b.length - a.length)[0] as string;
        for (const one of heads) expect(largest.startsWith(one)).toBe(true);
      }),
      { numRuns: 50 },
    );
  });
});

describe('signers of one directory', () => {
  test('that sign at once record the largest checkpoint', async () => {
    const { dir, recorded } = signerIn();
    const texts = ['abc', 'abcdef', 'a', 'abcd', 'abcdefg', 'ab'];
    const notes = await Promise.all(texts.map((text) => signerIn(dir).sign('abcdefg', text.length)));
    expect(await Promise.all(notes.map(sizeOf))).toEqual(texts.map(({ length }) => length));
    expect(await sizeOf(recorded())).toBe(7);
  });

  test.each([
    ['larger', 6],
    ['smaller', 3],
  ])('do not wait while another one proves a %s checkpoint', async (_, size) => {
    const first = signerIn();
    await first.sign('a');
    const proving = Promise.withResolvers<void>();
    const signing = first.sign('abcdef', size, proving.promise);
    expect(await sizeOf(await signerIn(first.dir).sign('abcde'))).toBe(5);
    proving.resolve();
    expect(await sizeOf(await signing)).toBe(size);
    expect(await sizeOf(first.recorded())).toBe(Math.max(size, 5));
  });

  test('do not sign another history that was proven while the first was signed', async () => {
    const first = signerIn();
    await first.sign('a');
    const proving = Promise.withResolvers<void>();
    const signing = first.sign('abX', undefined, proving.promise);
    await signerIn(first.dir).sign('ab');
    await signerIn(first.dir).sign('aby');
    proving.resolve();
    await expect(signing).rejects.toThrow(LogContradictsCheckpoint);
    expect(await sizeOf(first.recorded())).toBe(3);
  });
});

describe('the file of the last checkpoint', () => {
  const refused = (signing: Promise<string>, reason: RegExp) =>
    expect(signing).rejects.toSatisfy(
      (error) => error instanceof CheckpointFileUnusable && reason.test(error.message),
    );

  test.each<[what: string, content: string | Uint8Array, reason: RegExp]>([
    ['empty', '', /not a signed note/],
    ['garbage', Buffer.alloc(1_000, 0xff), /not UTF-8/],
    ['too large', Buffer.alloc(1_000_001, 'a'), /not a checkpoint/],
    [
      'of another key',
      signCheckpoint(logOf('abc').head(), keyOf('log.example', 'other')),
      /there is no signature of/,
    ],
    [
      'of another origin',
      signCheckpoint(logOf('abc').head(), keyOf('other.example')),
      /there is no signature of/,
    ],
  ])('is not overwritten if it is %s, and nothing is signed', async (_, content, reason) => {
    const { file, sign } = signerIn();
    writeFileSync(file, content);
    await refused(sign('abcd'), reason);
    expect(readFileSync(file)).toEqual(Buffer.from(content as string));
    rmSync(file); // as the operator decides
    expect(await sizeOf(await sign('abcd'))).toBe(4);
  });

  test('may be older or missing while the process remembers the last checkpoint', async () => {
    const { file, sign, recorded } = signerIn();
    const older = await sign('ab');
    await sign('abcd');
    writeFileSync(file, older);
    await expect(sign('abXde')).rejects.toThrow(LogContradictsCheckpoint);
    await expect(sign('abX')).rejects.toThrow(LogContradictsCheckpoint);
    rmSync(file);
    await expect(sign('abXde')).rejects.toThrow(LogContradictsCheckpoint);
    const last = await sign('abcde');
    expect(recorded()).toBe(last);
  });

  test('that cannot be written lets no checkpoint out, until it can be', async () => {
    const { file, sign, recorded } = signerIn();
    const last = await sign('ab');
    mkdirSync(`${file}.draft`); // simulates a full disk
    await refused(sign('abc'), /EISDIR/);
    expect(recorded()).toBe(last);
    rmdirSync(`${file}.draft`);
    expect(await sizeOf(await sign('abc'))).toBe(3);
  });

  test('is complete after a kill: the draft of the next checkpoint is ignored', async () => {
    const { dir, file, sign } = signerIn();
    const last = await sign('ab');
    writeFileSync(`${file}.draft`, (await signerIn().sign('abc')).slice(0, 20));
    const next = signerIn(dir);
    await expect(next.sign('aX')).rejects.toThrow(LogContradictsCheckpoint);
    expect(await next.sign('ab')).toBe(last);
    expect(await sizeOf(await next.sign('abcd'))).toBe(4);
  });

  test('in a directory that is gone is an error, and not a new history', async () => {
    const { dir, sign } = signerIn();
    await sign('abc');
    renameSync(dir, `${tempDir()}/moved`);
    await refused(sign('abcd'), /checkpoint\.lock/);
  });

  test('is separate for each key and origin, and the other histories are kept', async () => {
    const { dir, sign, recorded } = signerIn();
    const last = await sign('abc');
    for (const key of [keyOf('log.example', 'new'), keyOf('other.example')]) {
      const other = signerIn(dir, key);
      expect(other.signer.earlierHistories()).toContain(`checkpoint-${KEY.verifierKey.id}`);
      expect(await other.sign('xyz')).toBe(signCheckpoint(logOf('xyz').head(), key));
      expect(other.signer.earlierHistories()).toEqual([]);
    }
    expect(recorded()).toBe(last);
    await expect(signerIn(dir).sign('xyz')).rejects.toThrow(LogContradictsCheckpoint);
  });
});
