import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ViewBehind } from '../../../event-log/src/views/waiting.ts';
import { leafHash } from '../../../tlog/src/merkle/merkleTree.ts';
import type { Tile } from '../../../tlog/src/merkle/tiles.ts';
import { openCheckpoint } from '../../../tlog/src/notes/checkpoint.ts';
import { signCheckpoint, toVerifierKey } from '../../../tlog/src/sign/signCheckpoint.ts';
import { keyNamed } from '../../../tlog/test/notes/keys.ts';
import { CheckpointFiles, CheckpointFileUnusable } from '../../src/signer/checkpointFiles.ts';
import { Checkpoints } from '../../src/signer/checkpoints.ts';
import { LogContradictsCheckpoint } from '../../src/signer/contradiction.ts';
import { MemoryTree } from '../support/memoryTree.ts';

const keyOf = (origin: string, name = 'log') => {
  const key = keyNamed(name);
  return { origin, key, verifierKey: toVerifierKey(origin, key) };
};
const KEY = keyOf('log.example');

/** The tree of a log whose events are letters. */
async function treeOf(text: string) {
  const tree = new MemoryTree(Array.from(text, leafHash));
  const head = await tree.head();
  return { head, readTile: (tile: Tile) => tree.read(tile), save: vi.fn() };
}

const noteOf = async (text: string, key = KEY): Promise<string> =>
  signCheckpoint((await treeOf(text)).head, key);

/** The checkpoints in a directory, of a log that `grow` replaces; while it is undefined, its tree is not ready. */
async function checkpointsIn(text: string | undefined, { dir = tempDir(), key = KEY } = {}) {
  let tree = text === undefined ? undefined : await treeOf(text);
  const discarded: string[] = [];
  const view = {
    discard(reason: string) {
      discarded.push(reason);
      throw new ViewBehind('The tree is being rebuilt; retry.');
    },
  };
  const follower = {
    get notReady() {
      return tree ? undefined : 'catching up';
    },
    get readable() {
      if (tree) return tree;
      throw new ViewBehind('The tree is not up to date yet; retry.');
    },
    view,
    save: () => tree?.save(),
    reached: () => new Promise<void>(() => {}),
  };
  const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const refusals: (string | undefined)[] = [];
  const observer = {
    onRefusal: (refusal: string | undefined) => void refusals.push(refusal),
    onCosignature: vi.fn(),
    onWitnessFailure: vi.fn(),
    onQuorum: vi.fn(),
  };
  const checkpoints = new Checkpoints({
    tree: follower as never,
    logKey: key,
    dataDir: dir,
    logger,
    observer,
    intervalMs: 1,
  });
  onTestFinished(() => checkpoints.close());
  const { signedFile: file } = new CheckpointFiles(key.verifierKey, dir);
  const grow = async (next: string | undefined) => {
    tree = next === undefined ? undefined : await treeOf(next);
    return tree;
  };
  return {
    ...{ dir, file, checkpoints, follower, grow, logger, refusals, discarded },
    recorded: () => readFileSync(file, 'utf8'),
    /** The checkpoint that is served, or its error. */
    latest: () => {
      try {
        return checkpoints.latest.note;
      } catch (error) {
        return (error as Error).name;
      }
    },
  };
}

describe('a checkpoint', () => {
  test('is published when the log has grown, and recorded before, with its tree', async () => {
    const { dir, latest, grow, recorded, checkpoints } = await checkpointsIn('');
    await expect.poll(latest).toBe(await noteOf(''));
    for (const text of ['a', 'ab', 'abcdefg']) {
      const tree = await grow(text);
      await expect.poll(latest).toBe(await noteOf(text));
      expect(recorded()).toBe(await noteOf(text));
      expect(tree?.save).toHaveBeenCalledOnce();
    }
    expect(readdirSync(dir)).toEqual([`checkpoint-${KEY.verifierKey.id}`]);
    await checkpoints.close();
    const again = await checkpointsIn('abcdefg', { dir });
    await expect.poll(again.latest).toBe(await noteOf('abcdefg'));
  });

  test('is not published while its tree cannot be saved', async () => {
    const { latest, grow, follower, refusals, logger } = await checkpointsIn('a');
    await expect.poll(latest).toBe(await noteOf('a'));
    const failed = vi.fn(() => {
      throw new ViewBehind('The tree cannot be saved; retry.');
    });
    const { save } = follower;
    follower.save = failed;
    await grow('ab');
    await expect.poll(() => failed.mock.calls.length).toBeGreaterThan(2);
    expect(latest()).toBe(await noteOf('a'));
    expect([refusals, logger.error.mock.calls]).toEqual([[], []]);
    follower.save = save;
    await expect.poll(latest).toBe(await noteOf('ab'));
  });

  test('is served at once after a start, while the tree is not ready', async () => {
    const { dir, latest, checkpoints } = await checkpointsIn('abc');
    await expect.poll(latest).toBe(await noteOf('abc'));
    await checkpoints.close();
    const next = await checkpointsIn(undefined, { dir });
    await expect.poll(next.latest).toBe(await noteOf('abc'));
    await next.grow('abcd');
    await expect.poll(next.latest).toBe(await noteOf('abcd'));
    await next.grow(undefined);
    expect(next.latest()).toBe(await noteOf('abcd'));
  });

  test('does not exist before the first tree is ready', async () => {
    const { latest, checkpoints } = await checkpointsIn(undefined);
    expect(latest()).toBe('ViewBehind');
    await expect(checkpoints.assertTreeExtends()).rejects.toThrow(ViewBehind);
  });

  test('that has an entry is waited for', async () => {
    const { checkpoints, grow, latest } = await checkpointsIn('ab');
    expect((await checkpoints.covering(1)).size).toBe(2);
    const covering = checkpoints.covering(2);
    expect(latest()).toBe(await noteOf('ab'));
    await grow('abc');
    expect((await covering).note).toBe(await noteOf('abc'));
  });

  test.each<[what: string, text: string]>([
    ['an altered event', 'abXde'],
    ['an altered event, and more', 'abXdefg'],
    ['a missing last event', 'abcd'],
    ['no events', ''],
  ])('is not signed for a log with %s', async (_, text) => {
    const { latest, grow, recorded, logger, refusals, checkpoints } = await checkpointsIn('abcde');
    await expect.poll(latest).toBe(await noteOf('abcde'));
    await expect(checkpoints.assertTreeExtends()).resolves.toBeUndefined();
    await grow(text);
    await expect(checkpoints.assertTreeExtends()).rejects.toThrow(LogContradictsCheckpoint);
    await expect.poll(latest).toBe('LogContradictsCheckpoint');
    expect(() => checkpoints.cosigned).toThrow(LogContradictsCheckpoint);
    await expect(checkpoints.covering(0)).rejects.toThrow(LogContradictsCheckpoint);
    expect(recorded()).toBe(await noteOf('abcde'));
    expect(refusals).toEqual([undefined, 'log_contradicts'].slice(-refusals.length));
    expect(logger.error).toHaveBeenCalledOnce();
    await grow('abcdef');
    await expect.poll(latest).toBe(await noteOf('abcdef'));
    expect(logger.info).toHaveBeenCalledWith('checkpoints are signed again');
    expect(refusals.at(-1)).toBeUndefined();
  });

  test('that the tree contradicts has the tree rebuilt, once', async () => {
    const { latest, grow, discarded, logger } = await checkpointsIn('abc');
    await expect.poll(latest).toBe(await noteOf('abc'));
    await grow('aXc');
    await expect.poll(latest).toBe('LogContradictsCheckpoint');
    expect(discarded).toHaveLength(1);
    expect(logger.error).toHaveBeenCalledOnce();
    await grow('abcd');
    await expect.poll(latest).toBe(await noteOf('abcd'));
    await grow('abXd');
    await expect.poll(() => discarded).toHaveLength(2);
  });

  test('of another log is never signed, after any earlier checkpoints in any order', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 2, maxLength: 5 }), async (texts) => {
        const dir = tempDir();
        let signed = '';
        for (const one of texts) {
          const { latest, checkpoints } = await checkpointsIn(one, { dir });
          const extended = one.startsWith(signed);
          await expect.poll(latest).toBe(extended ? await noteOf(one) : 'LogContradictsCheckpoint');
          if (extended) signed = one;
          await checkpoints.close();
        }
      }),
      { numRuns: 15 },
    );
  });
});

describe('the file of the last checkpoint', () => {
  test.each<[what: string, content: (() => Promise<string>) | string | Uint8Array, reason: string]>([
    ['empty', '', 'not a signed note'],
    ['garbage', Buffer.alloc(1_000, 0xff), 'not UTF-8'],
    ['too large', Buffer.alloc(1_000_001, 'a'), 'not a checkpoint'],
    ['of another key', () => noteOf('abc', keyOf('log.example', 'other')), 'there is no signature of'],
    ['of another origin', () => noteOf('abc', keyOf('other.example')), 'there is no signature of'],
  ])('is not overwritten if it is %s, and nothing is signed', async (_, content, reason) => {
    const dir = tempDir();
    const { signedFile } = new CheckpointFiles(KEY.verifierKey, dir);
    const bytes = Buffer.from((typeof content === 'function' ? await content() : content) as string);
    writeFileSync(signedFile, bytes);
    const { latest, logger, refusals, checkpoints } = await checkpointsIn('abcd', { dir });
    await expect.poll(latest).toBe('CheckpointFileUnusable');
    await expect(checkpoints.assertTreeExtends()).rejects.toThrow(CheckpointFileUnusable);
    expect(logger.error.mock.calls).toEqual([
      [
        { reason: expect.stringContaining(reason) },
        'the signed checkpoint cannot be read or saved; nothing is signed',
      ],
    ]);
    expect(refusals.at(-1)).toBe('file_unusable');
    expect(readFileSync(signedFile)).toEqual(bytes);
    rmSync(signedFile); // as the operator decides
    await expect.poll(latest).toBe(await noteOf('abcd'));
  });

  test('may be older or missing while the process remembers the last checkpoint', async () => {
    const { file, latest, grow } = await checkpointsIn('abcd');
    await expect.poll(latest).toBe(await noteOf('abcd'));
    writeFileSync(file, await noteOf('ab'));
    await grow('abXde');
    await expect.poll(latest).toBe('LogContradictsCheckpoint');
    rmSync(file);
    await grow('abX');
    await grow('abcde');
    await expect.poll(latest).toBe(await noteOf('abcde'));
  });

  test('that cannot be written lets no checkpoint out, until it can be', async () => {
    const { file, latest, grow, recorded, refusals } = await checkpointsIn('ab');
    await expect.poll(latest).toBe(await noteOf('ab'));
    mkdirSync(`${file}.draft`); // simulates a full disk
    await grow('abc');
    await expect.poll(() => refusals.at(-1)).toBe('file_unusable');
    expect([latest(), recorded()]).toEqual([await noteOf('ab'), await noteOf('ab')]);
    rmdirSync(`${file}.draft`);
    await expect.poll(latest).toBe(await noteOf('abc'));
  });

  test('is complete after a kill: the draft of the next checkpoint is ignored', async () => {
    const { dir, file, latest, checkpoints } = await checkpointsIn('ab');
    await expect.poll(latest).toBe(await noteOf('ab'));
    await checkpoints.close();
    writeFileSync(`${file}.draft`, (await noteOf('abc')).slice(0, 20));
    const next = await checkpointsIn('aX', { dir });
    await expect.poll(next.latest).toBe('LogContradictsCheckpoint');
    await next.grow('abcd');
    await expect.poll(next.latest).toBe(await noteOf('abcd'));
  });

  test('in a directory that is gone is an error, and not a new history', async () => {
    const { dir, latest, grow, refusals } = await checkpointsIn('abc');
    await expect.poll(latest).toBe(await noteOf('abc'));
    renameSync(dir, `${tempDir()}/moved`);
    await grow('abcd');
    await expect.poll(() => refusals.at(-1)).toBe('file_unusable');
  });

  test('is separate for each key and origin, and the other histories are kept', async () => {
    const { dir, latest, recorded } = await checkpointsIn('abc');
    await expect.poll(latest).toBe(await noteOf('abc'));
    for (const key of [keyOf('log.example', 'new'), keyOf('other.example')]) {
      const files = new CheckpointFiles(key.verifierKey, dir);
      expect(files.earlierHistories()).toContain(`checkpoint-${KEY.verifierKey.id}`);
      const other = await checkpointsIn('xyz', { dir, key });
      await expect.poll(other.latest).toBe(await noteOf('xyz', key));
      expect(files.earlierHistories()).toEqual([]);
      expect((await openCheckpoint(other.recorded(), key.verifierKey)).size).toBe(3);
    }
    expect(recorded()).toBe(await noteOf('abc'));
  });
});
