import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { EMPTY_TREE, openCheckpoint } from '../../src/notes/checkpoint.ts';
import { formatSignature } from '../../src/notes/signedNote.ts';
import { signCheckpoint, signNote, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { cosign, verifyCosignatures } from '../../src/witness/cosignature.ts';
import { WitnessStateUnusable } from '../../src/witness/cosignedCheckpointFile.ts';
import { CheckpointRejected, Witness } from '../../src/witness/witness.ts';
import { keyNamed } from '../notes/keys.ts';
import { checkpointOf, LOG_ID, LOG_KEY, ORIGIN, request, WITNESS } from './testLog.ts';

const LOG = { name: ORIGIN, key: keyNamed('log') };
const NEXT_LOG_KEY = toVerifierKey(ORIGIN, keyNamed('next log key'));
const OTHER = { origin: 'other.example', key: keyNamed('other log') };
const LOGS = [LOG_KEY, NEXT_LOG_KEY, toVerifierKey(OTHER.origin, OTHER.key)];
/** In seconds since 1970. */
const TIME = 1_800_000_000;

function witnessIn(dir: string, logs = LOGS) {
  const clock = { time: TIME };
  const now = () => new Date(clock.time * 1_000);
  const witness = new Witness({ ...WITNESS, logs, stateDir: dir, now });
  return {
    clock,
    file: join(dir, LOG_ID),
    /** Sends an add-checkpoint request. */
    async add(text: string | Buffer) {
      try {
        return { status: 200, line: await witness.addCheckpoint(Buffer.from(text)) };
      } catch (error) {
        if (error instanceof CheckpointRejected) return { status: error.status, ...error.details };
        expect(error).toBeInstanceOf(WitnessStateUnusable);
        return { status: 503, message: (error as Error).message };
      }
    },
    /** What the latest cosigned checkpoint states, if its signatures are valid. */
    async latest() {
      const note = await witness.checkpoint(LOG_ID);
      if (note === undefined) return undefined;
      const [cosignature] = verifyCosignatures(note, [witness.verifierKey]);
      return { ...(await openCheckpoint(note, LOG_KEY)), time: cosignature?.time, note };
    },
  };
}

/** A witness that has cosigned the log abc. */
async function witnessOfAbc(dir = tempDir()) {
  const witness = witnessIn(dir);
  expect(await witness.add(request('abc'))).toMatchObject({ status: 200 });
  return witness;
}

test('a log is cosigned at its first size, at the same size again, and as it grows', async () => {
  const { add, latest, clock } = witnessIn(tempDir());
  expect(await latest()).toBeUndefined();
  let from = 0;
  for (const size of [0, 0, 1, 4, 4, 7]) {
    clock.time++;
    const { line } = (await add(request('abcdefg', { from, size }))) as { line: string };
    expect(await latest()).toMatchObject({ origin: ORIGIN, size, time: clock.time });
    expect((await latest())?.note.endsWith(`\n${line}`)).toBe(true);
    from = size;
  }
  const { time } = clock;
  clock.time = TIME - 1_000;
  await add(request('abcdefgh', { from }));
  expect(await latest()).toMatchObject({ size: 8, time }); // it does not go back
});

test('the cosigned checkpoint has the signatures by known keys of its log alone, and its extension lines', async () => {
  const { add, latest } = witnessIn(tempDir());
  const text = `${checkpointOf(request('abc')).split('\n\n')[0]}\nmore\n`;
  const lineOf = (key: string): string => checkpointOf(signNote(text, { name: ORIGIN, key: keyNamed(key) }));
  const [own, next, unknown] = [lineOf('log'), lineOf('next log key'), lineOf('unknown')];
  const added = await add(`old 0\n\n${text}\n${[own, unknown, next, own].join('')}`);
  expect(added).toEqual({ status: 200, line: expect.stringMatching(/^— witness.example\/w1 [^ ]+\n$/) });
  expect((await latest())?.note).toBe(`${text}\n${own}${next}${(added as { line: string }).line}`);
});

const abcd = request('abcd', { from: 3 });
const invalid = (key = LOG_KEY): string => formatSignature(key, Buffer.alloc(64));
const cosignedByLog = cosign(checkpointOf(abcd), LOG, 5);
const HASH = Buffer.alloc(32).toString('base64');
const withHash = (hash: string, text = abcd): string => text.replace('\n\n', `\n${hash}\n\n`);
const emptyLog = (root: string): string =>
  `old 0\n\n${signCheckpoint({ size: 0, root }, { origin: ORIGIN, key: LOG.key })}`;
const cut = (at: number): [number, string, string] => [400, `cut after ${at} bytes`, abcd.slice(0, at)];

test.each<[number, string, string | Buffer]>([
  [404, 'of an unknown log', request('abcd', { from: 3, origin: 'unknown.example' })],
  [403, 'without a signature by a known key', request('abcd', { from: 3, key: keyNamed('x') })],
  [403, 'signed by the key of another log', request('abcd', { from: 3, key: OTHER.key })],
  [403, 'with a valid and an invalid signature by one key', abcd + invalid()],
  [403, 'with an invalid signature by another known key', abcd + invalid(NEXT_LOG_KEY)],
  [403, 'with the signature of another text', abcd.replace('\n4\n', '\n5\n')],
  [403, 'with a signature of another type', abcd.replace(/—.*\n/, cosignedByLog)],
  [400, 'with an old size that is larger than its size', request('abcd', { from: 5 })],
  [409, 'with a smaller old size', request('abcd', { from: 2 })],
  [409, 'with the old size 0', request('abcd')],
  [409, 'with a larger old size', request('abcd', { from: 4 })],
  [409, 'of a smaller log', request('ab', { from: 1 })],
  [409, 'of an empty log', emptyLog(EMPTY_TREE.root)],
  [422, 'without its proof', `old 3\n\n${checkpointOf(abcd)}`],
  [422, 'with another proof', abcd.replace(/\n[^\n]+=\n/, `\n${HASH}\n`)],
  [422, 'with one more hash', withHash(HASH)],
  [422, 'of another log of the same size', request('abx', { from: 3 })],
  [422, 'of another log of a larger size', request('abxd', { from: 3 })],
  [422, 'of the same size with a proof', withHash(HASH, request('abc', { from: 3 }))],
  [400, 'without a line feed at its end', abcd.slice(0, -1)],
  [400, 'with CR LF', abcd.replaceAll('\n', '\r\n')],
  [400, 'that is only a checkpoint', checkpointOf(abcd)],
  [400, 'without an empty line', abcd.replace('\n\n', '\n')],
  [400, 'that is not UTF-8', Buffer.concat([Buffer.from(abcd), Buffer.of(0xff)])],
  [400, 'with a byte order mark', `\ufeff${abcd}`],
  [400, 'with a leading zero in the old size', abcd.replace('old 3', 'old 03')],
  [400, 'with a negative old size', abcd.replace('old 3', 'old -3')],
  [400, 'with two spaces', abcd.replace('old 3', 'old  3')],
  [400, 'with an old size beyond 2^53', abcd.replace('old 3', 'old 9007199254740993')],
  [400, 'with a leading zero in the size', abcd.replace('\n4\n', '\n04\n')],
  [400, 'with 64 hashes', withHash(`${HASH}\n`.repeat(64).trim(), abcd.replace(/\n.*=\n/, '\n'))],
  [400, 'with a hash of 31 bytes', withHash(Buffer.alloc(31).toString('base64'))],
  [400, 'with a hash without padding', withHash(HASH.slice(0, -1))],
  [400, 'with a hash whose unused bits are set', withHash(`${HASH.slice(0, -2)}B=`)],
  [400, 'with a line that is not a signature', `${abcd}— nothing\n`],
  [400, 'with 101 signatures', abcd + invalid().repeat(100)],
  ...[0, 10, 60, 120, 180, 250].map(cut),
])('after the log abc, the status is %i for a request %s', async (status, _, text) => {
  const { add, latest } = await witnessOfAbc();
  expect(await add(text)).toMatchObject(status === 409 ? { status, size: 3 } : { status });
  expect(await latest()).toMatchObject({ size: 3, time: TIME });
  expect(await add(abcd)).toMatchObject({ status: 200 });
});

test.each<[number, string, string]>([
  [422, 'with a proof', withHash(HASH, request('abc'))],
  [422, 'of size 0 with another root than that of an empty log', emptyLog('00'.repeat(32))],
  [403, 'of size 0 with another root, not signed', emptyLog('00'.repeat(32)).replace(/—.*\n/, invalid())],
  [409, 'from another size', request('abc', { from: 2 })],
])('without a cosigned checkpoint, the status is %i for a request %s', async (status, _, text) => {
  const { add, latest } = witnessIn(tempDir());
  expect(await add(text)).toMatchObject(status === 409 ? { status, size: 0 } : { status });
  expect(await latest()).toBeUndefined();
});

test.each([1, 2, 3])('concurrent requests get a single history cosigned (%i)', async (seed) => {
  const numbers = fc.sample(fc.nat(5), { numRuns: 1_200, seed });
  const pick = <T>(values: readonly T[]): T => values[(numbers.pop() as number) % values.length] as T;
  const { add, latest } = await witnessOfAbc();
  const cosigned: string[] = [];
  const submit = async (): Promise<void> => {
    const from = pick([3, ...cosigned.slice(-2).map(({ length }) => length)]);
    const size = from + pick([0, 1, 2]);
    const letters = `abc${pick(['x', 'y', 'z']).repeat(size)}`.slice(0, size);
    const { status } = await add(request(letters, { from }));
    if (status === 200) cosigned.push(letters);
    else expect([409, 422]).toContain(status);
  };
  for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 20 }, submit));
  const last = cosigned.at(-1) ?? '';
  expect(last.length).toBeGreaterThan(10);
  expect(cosigned.filter((letters) => !last.startsWith(letters))).toEqual([]);
  expect(cosigned).toEqual(cosigned.toSorted((one, other) => one.length - other.length));
  expect((await latest())?.size).toBe(last.length);
});

const lastLine = /[^\n]*\n$/;
test.each<[string, (note: string) => string | Buffer]>([
  ['empty', () => ''],
  ['not UTF-8', (note) => Buffer.concat([Buffer.from(note), Buffer.of(0xff)])],
  ['cut', (note) => note.slice(0, -9)],
  ['altered', (note) => note.replace('\n3\n', '\n2\n')],
  ['not cosigned', (note) => note.replace(lastLine, '')],
  [
    'cosigned by another key',
    (note) => note.replace(lastLine, cosign(note, { ...WITNESS, key: LOG.key }, TIME)),
  ],
  [
    'of another log',
    () => checkpointOf(request('abc', OTHER)) + cosign(checkpointOf(request('abc', OTHER)), WITNESS, TIME),
  ],
])('while its file is %s, each request for a log fails, and the file is left as it is', async (_, damage) => {
  const dir = tempDir();
  const { file } = await witnessOfAbc(dir);
  const damaged = Buffer.from(damage(readFileSync(file, 'utf8')));
  writeFileSync(file, damaged);
  const { add, latest } = witnessIn(dir);
  for (const text of [abcd, request('abx'), abcd]) expect(await add(text)).toMatchObject({ status: 503 });
  await expect(latest()).rejects.toThrow(`${ORIGIN}  cannot use ${file}: `);
  expect(readFileSync(file)).toEqual(damaged);
  rmSync(file);
  expect(await add(request('abx'))).toMatchObject({ status: 503 }); // it is not a new log then
  expect(await add(request('abc', OTHER))).toMatchObject({ status: 200 });
});

/** From this call on, a method of files fails as on a full disk. */
async function fail(method: 'writeFile' | 'sync', call: number): Promise<Disposable> {
  await using handle = await open('.', 'r');
  const prototype: FileHandle = Object.getPrototypeOf(handle);
  const original = prototype[method];
  const spy = vi.spyOn(prototype, method).mockImplementation(function (this: FileHandle, ...args: unknown[]) {
    if (spy.mock.calls.length >= call) return Promise.reject(new Error('ENOSPC: no space left on device'));
    return Reflect.apply(original, this, args);
  });
  return { [Symbol.dispose]: () => spy.mockRestore() };
}

test.each<[string, 'writeFile' | 'sync', number, number]>([
  ['written', 'writeFile', 1, 3],
  ['synced', 'sync', 1, 3],
  ['synced in its directory', 'sync', 2, 4],
])('a checkpoint that cannot be %s is not cosigned, and allows no fork', async (_, method, call, size) => {
  const { add, latest } = await witnessOfAbc();
  const failing = await fail(method, call);
  expect(await add(abcd)).toEqual({ status: 503, message: expect.stringContaining('ENOSPC') });
  failing[Symbol.dispose]();
  expect(await latest()).toMatchObject({ size });
  expect(await add(request('abxy', { from: 3 }))).toMatchObject({ status: size === 3 ? 422 : 409 });
  expect(await add(request('abcd', { from: size }))).toMatchObject({ status: 200 });
});

test('a log whose file is missing or older is not treated as a log without a cosigned checkpoint', async () => {
  const { add, file } = await witnessOfAbc();
  const older = readFileSync(file);
  expect(await add(abcd)).toMatchObject({ status: 200 });
  for (const damage of [() => writeFileSync(file, older), () => rmSync(file)]) {
    damage();
    for (const text of [request('abcx', { from: 3 }), request('abx')])
      expect(await add(text)).toEqual({
        status: 503,
        message: expect.stringMatching(/it no longer has the latest checkpoint/),
      });
  }
});

test('a witness must not have the key of a log', () => {
  const same = toVerifierKey('same.example', WITNESS.key);
  expect(() => witnessIn(tempDir(), [LOG_KEY, same])).toThrow(
    'the witness and the log same.example must have different keys',
  );
});
