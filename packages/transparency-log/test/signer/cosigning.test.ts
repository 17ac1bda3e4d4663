import { existsSync, writeFileSync } from 'node:fs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test, vi } from 'vitest';
import { entries, KEY, ORIGIN, VERIFIER_KEY } from '../../../monitor/test/fakeLog.ts';
import { leafHash } from '../../../tlog/src/merkle/merkleTree.ts';
import { consistencyProofFromTiles } from '../../../tlog/src/merkle/tiles.ts';
import type { TreeHead } from '../../../tlog/src/merkle/treeHead.ts';
import { readUnverifiedCheckpoint } from '../../../tlog/src/notes/checkpoint.ts';
import { signCheckpoint } from '../../../tlog/src/sign/signCheckpoint.ts';
import { verifyCosignatures } from '../../../tlog/src/witness/cosignature.ts';
import { parsePolicy } from '../../../tlog/src/witness/policy.ts';
import { CheckpointFiles } from '../../src/signer/checkpointFiles.ts';
import { Cosigning } from '../../src/signer/cosigning.ts';
import { MemoryTree } from '../support/memoryTree.ts';
import { FakeWitness } from './fakeWitness.ts';

const NAMES = ['witness.example/w1', 'witness.example/w2', 'witness.example/w3'];

/** A log of one entry, which grows, with these witnesses. */
async function cosigned(
  witnesses: readonly FakeWitness[],
  { quorum = '2', dataDir = tempDir(), beforeProof = async () => {} } = {},
) {
  const tree = new MemoryTree(entries(1).map(leafHash));
  const prove = async (from: number, to: number) => {
    await beforeProof();
    return consistencyProofFromTiles(from, to, tree.read);
  };
  const files = new CheckpointFiles(VERIFIER_KEY, dataDir);
  const logger = { info: vi.fn(), warn: vi.fn() };
  const observer = { onCosignature: vi.fn(), onWitnessFailure: vi.fn(), onQuorum: vi.fn() };
  const sign = (head: TreeHead) => {
    return { ...head, origin: ORIGIN, note: signCheckpoint(head, { origin: ORIGIN, key: KEY }) };
  };
  let newest = sign(await tree.head());
  const policy = parsePolicy(
    witnesses.map(({ setting }) => setting),
    quorum,
  );
  const cosigning = new Cosigning({
    policy,
    files,
    newest: () => newest,
    prove,
    logger,
    observer,
    intervalMs: 1,
  });
  onTestFinished(() => cosigning.close());
  return {
    cosigning,
    dataDir,
    files,
    logger,
    observer,
    grow: async () => {
      for (const entry of entries(newest.size + 1).slice(-1)) tree.append(leafHash(entry));
      newest = sign(await tree.head());
    },
    /** The size of the checkpoint that is served, and which witnesses have signed it. */
    served: () => {
      if (!cosigning.cosigned) return undefined;
      const { note } = cosigning.cosigned;
      const keys = policy.witnesses.map(({ key }) => key);
      const names = verifyCosignatures(note, keys).map(({ key }) => key.name.slice(-2));
      return { size: readUnverifiedCheckpoint(note).size, names };
    },
  };
}

const started = (count = 3) =>
  Promise.all(NAMES.slice(0, count).map((name) => new FakeWitness(name).start()));

test('a checkpoint is served once a quorum has cosigned it, then with what comes later', async () => {
  const witnesses = await started();
  const late = Promise.withResolvers<void>();
  const [, , third] = witnesses as [FakeWitness, FakeWitness, FakeWitness];
  third.respond = async (submitted, response) => {
    await late.promise;
    response.end(third.sign(submitted));
  };
  const { served } = await cosigned(witnesses);
  await expect.poll(served).toEqual({ size: 1, names: ['w1', 'w2'] });
  late.resolve();
  await expect.poll(served).toEqual({ size: 1, names: ['w1', 'w2', 'w3'] });
});

test.each([1, 9e12])(
  'a witness that signs with the time %d makes no quorum, and the next one does',
  async (time) => {
    const witnesses = await started();
    const [odd, , third] = witnesses as [FakeWitness, FakeWitness, FakeWitness];
    odd.time = time;
    const { respond } = third;
    third.respond = (_, response) => void response.destroy();
    const { served, logger, observer } = await cosigned(witnesses);
    await expect
      .poll(() => logger.warn.mock.calls)
      .toContainEqual([
        { witness: odd.name, reason: expect.stringMatching(/^its clock or .* is wrong/) },
        'witness does not cosign; retrying',
      ]);
    expect(served()).toBeUndefined();
    third.respond = respond;
    await expect.poll(served).toEqual({ size: 1, names: ['w2', 'w3'] });
    odd.time = third.time;
    await expect.poll(served).toEqual({ size: 1, names: ['w1', 'w2', 'w3'] });
    expect(observer.onQuorum).toHaveBeenLastCalledWith(1, third.time);
  },
);

test('close waits for a proof for a witness that a quorum did not wait for', async () => {
  const proof = Promise.withResolvers<void>();
  let proofs = 0;
  const beforeProof = async () => {
    if (++proofs === 3) await proof.promise;
  };
  const { served, cosigning } = await cosigned(await started(), { beforeProof });
  await expect.poll(served).toEqual({ size: 1, names: ['w1', 'w2'] });
  const closed = vi.fn();
  const closing = cosigning.close().then(closed);
  for (let i = 0; i < 10; i++) await new Promise(setImmediate);
  expect(closed).not.toHaveBeenCalled();
  proof.resolve();
  await closing;
});

test('without a quorum the older checkpoint stays, until a new checkpoint has a quorum', async () => {
  const witnesses = await started(2);
  const [, second] = witnesses as [FakeWitness, FakeWitness];
  const { served, grow, logger, observer } = await cosigned(witnesses);
  await expect.poll(served).toEqual({ size: 1, names: ['w1', 'w2'] });
  const { respond } = second;
  second.respond = (_, response) => void response.writeHead(500).end('\u001b[31mred');
  await grow();
  await expect.poll(() => logger.warn.mock.calls.length).toBe(1);
  expect(logger.warn).toHaveBeenCalledWith(
    { witness: NAMES[1], reason: 'it refuses (500)' },
    'witness does not cosign; retrying',
  );
  expect(observer.onWitnessFailure).toHaveBeenCalledWith(NAMES[1]);
  expect(served()).toEqual({ size: 1, names: ['w1', 'w2'] });
  second.respond = respond;
  await grow();
  await expect.poll(served).toEqual({ size: 3, names: ['w1', 'w2'] });
  expect(logger.info).toHaveBeenCalledWith({ witness: NAMES[1] }, 'witness available again');
});

test('a witness that has signed gets no further request while a quorum is missing', async () => {
  const witnesses = await started(2);
  const [first, second] = witnesses as [FakeWitness, FakeWitness];
  const { respond } = second;
  let failures = 0;
  second.respond = (_, response) => {
    if (++failures === 3) second.respond = respond;
    response.destroy();
  };
  const { served } = await cosigned(witnesses);
  await expect.poll(served).toEqual({ size: 1, names: ['w1', 'w2'] });
  expect([failures, first.submitted.length]).toEqual([3, 1]);
});

test('cosignatures from before a start are renewed, even if a witness fails first', async () => {
  const witnesses = await started(2);
  const [, second] = witnesses as [FakeWitness, FakeWitness];
  const first = await cosigned(witnesses);
  await expect.poll(first.served).toEqual({ size: 1, names: ['w1', 'w2'] });
  await first.cosigning.close();
  const { respond } = second;
  second.respond = (_, response) => {
    second.respond = respond;
    response.destroy();
  };
  for (const witness of witnesses) witness.time += 60;
  const { observer, dataDir: _, ...again } = await cosigned(witnesses, first);
  const times = () => observer.onQuorum.mock.calls.map(([, time]) => time);
  await expect.poll(times).toEqual([second.time - 60, second.time]);
  expect(again.served()).toEqual({ size: 1, names: ['w1', 'w2'] });
});

test('a failure to save checkpoints is logged once, until a save succeeds', async () => {
  const { served, files, logger } = await cosigned(await started(2));
  const saving = vi.spyOn(files, 'writeCosigned').mockRejectedValue(new Error('ENOSPC'));
  await expect.poll(() => saving.mock.calls.length).toBeGreaterThan(3);
  expect(served()).toBeUndefined();
  expect(logger.warn.mock.calls).toEqual([
    [{ reason: 'ENOSPC' }, 'the cosigned checkpoint cannot be saved; retrying'],
  ]);
  saving.mockRestore();
  await expect.poll(served).toMatchObject({ size: 1 });
});

test('a failing witness misses rounds, for a delay that doubles', async () => {
  let now = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now); // a poll advances fake timers
  onTestFinished(() => clock.mockRestore());
  const witnesses = await started();
  const third = witnesses[2] as FakeWitness;
  third.respond = (_, response) => void response.destroy();
  const { served, grow, observer } = await cosigned(witnesses);
  const nextRound = async () => {
    await grow();
    await expect.poll(served).toMatchObject({ size: ++size });
  };
  let size = 1;
  await expect.poll(served).toMatchObject({ size });
  for (let failures = 1; failures <= 6; failures++) {
    await expect.poll(() => observer.onWitnessFailure.mock.calls.length).toBe(failures);
    const delayMs = 50 * 2 ** failures; // half as long, up to one and a half times
    now += delayMs / 2 - 1;
    await nextRound();
    expect(third.submitted).toHaveLength(failures);
    now += delayMs + 1;
    await nextRound();
  }
});

test('the cosigned checkpoint is served after a restart, before any witness responds', async () => {
  const witnesses = await started();
  const before = await cosigned(witnesses);
  await expect.poll(before.served).toMatchObject({ size: 1 });
  await before.cosigning.close();
  for (const witness of witnesses) witness.respond = (_, response) => void response.destroy();
  const { served, observer } = await cosigned(witnesses, { dataDir: before.dataDir });
  await expect.poll(served).toEqual(before.served());
  expect(observer.onQuorum).toHaveBeenCalledWith(1, witnesses[0]?.time);
});

test.each<[string, (file: string, note: string) => void]>([
  ['has too few cosignatures for the quorum of now', () => {}],
  ['is damaged', (file, note) => writeFileSync(file, note.replace('log\n1\n', 'log\n2\n'))],
  ['is no checkpoint', (file) => writeFileSync(file, 'nothing')],
])('a file that %s is not served', async (_, damage) => {
  const witnesses = await started(2);
  const before = await cosigned(witnesses, { quorum: '1' });
  await expect.poll(before.served).toMatchObject({ size: 1, names: ['w1', 'w2'] });
  await before.cosigning.close();
  const file = `${before.files.signedFile}.cosigned`;
  expect(existsSync(file)).toBe(true);
  const note = (await before.files.readCosigned())?.note ?? '';
  writeFileSync(file, `${note.split('\n').slice(0, 6).join('\n')}\n`);
  damage(file, note);
  for (const witness of witnesses) witness.respond = (_, response) => void response.destroy();
  const { served, logger, observer } = await cosigned(witnesses, { dataDir: before.dataDir });
  await expect.poll(() => observer.onQuorum.mock.calls).toEqual([[0, 0]]);
  expect(served()).toBeUndefined();
  const restoring = logger.warn.mock.calls.filter(([, message]) => message.includes('cannot be read'));
  expect(restoring).toHaveLength(1);
});
