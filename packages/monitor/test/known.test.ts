import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { inclusionProofFromTiles } from '../../tlog/src/merkle/tiles.ts';
import { formatInclusionProof } from '../../tlog/src/notes/proof.ts';
import { signCheckpoint, signNote } from '../../tlog/src/sign/signCheckpoint.ts';
import { openPolicy } from '../../tlog/src/witness/policy.ts';
import { keyNamed } from '../../tlog/test/notes/keys.ts';
import { witnessKey } from '../../tlog/test/witness/cosign.ts';
import { readKnown } from '../src/fromOthers.ts';
import { NEW_STATE } from '../src/state.ts';
import { alarmOf, check, expectFork, forkOf, logOf, missing, showing, signed, stateOf } from './checking.ts';
import { cosigned, type FakeLog, KEY, NOW, ORIGIN, VERIFIER_KEY } from './fakeLog.ts';

const file = (text: string | Buffer): string => {
  const path = join(tempDir(), 'bob.tlog-proof');
  writeFileSync(path, text);
  return path;
};

/** The receipt of an event, by the index of which is meant from 0. */
async function issueReceipt(log: FakeLog, index: number): Promise<string> {
  const { size } = log.head();
  const path = await inclusionProofFromTiles(index, size, (tile) => log.tile(tile));
  return formatInclusionProof({
    index,
    path,
    checkpoint: signed(log.head()),
    extra: log.log[index] as Buffer,
  });
}

const known = (...files: string[]) => readKnown(files, VERIFIER_KEY, '2026-05-01T00:00:00.000Z');

describe('what others have of the log', () => {
  test('must be consistent with it, whatever its size: checkpoints and receipts', async () => {
    const files = [signed(logOf(3).head()), await issueReceipt(logOf(5), 4), signed(logOf(300).head())].map(
      file,
    );
    const { found, error } = await check(logOf(300), stateOf(logOf(5).head()), {
      known: await known(...files),
    });
    expect({ error, size: found?.checkpoint.size }).toEqual({ error: undefined, size: 300 });
    for (const text of [signed(forkOf(6, 2).head()), await issueReceipt(forkOf(300, 2), 0)]) {
      const path = file(text);
      const fork = await alarmOf(logOf(300), NEW_STATE, { known: await known(path) });
      expect(fork.message).toMatch(/^fork: /);
      expect(fork.message).toContain(`(in ${path})`);
      await expectFork(fork);
    }
  });

  test('is an alarm if it is larger than what the log shows, after some retries', async () => {
    const path = file(signed(logOf(9).head()));
    const { error, slept } = await check(logOf(7), NEW_STATE, { known: await known(path) });
    expect(slept).toHaveLength(4);
    expect(error).toMatchObject({
      kind: 'rollback',
      message: `rollback: the log has signed 9 events (in ${path}), and now signs 7, and does not show whether they are the first of them`,
    });
    const hidden = logOf(7);
    hidden.tile = missing;
    const { error: alarm, slept: waits } = await check(hidden, NEW_STATE, { known: await known(path) });
    expect([alarm, waits.length]).toEqual([error, 4]);
    const lagging = showing([logOf(7), logOf(7), logOf(9)], logOf(9));
    expect((await check(lagging, NEW_STATE, { known: await known(path) })).error).toBeUndefined();
  });

  test('is one too if the log shows its tiles, unless it may wait for cosignatures, and has to stay consistent', async () => {
    const path = file(await issueReceipt(logOf(9), 8));
    const options = { known: await known(path) };
    const rollback = `rollback: the log has signed 9 events (in ${path}), and now signs 7, which are the first of them`;
    const once = logOf(9);
    const { tile } = once;
    let requests = 0;
    once.tile = (wanted) => (requests++ === 0 ? missing() : tile.call(once, wanted));
    for (const tiles of [logOf(9), once])
      expect((await alarmOf(showing([logOf(7)], tiles), NEW_STATE, options)).message).toBe(rollback);
    const policy = openPolicy({ witness: [witnessKey('w1')] }, () => {});
    const received = options.known.map((one) => ({ ...one, receivedAt: NOW.toISOString() }));
    const cosignedAgo = (seconds: number) => {
      const note = cosigned(signed(logOf(7).head()), ['w1'], seconds);
      return showing([{ checkpoint: async () => Buffer.from(note) }], logOf(9));
    };
    const waiting = await check(cosignedAgo(0), NEW_STATE, { known: received, policy });
    expect(waiting.error).toMatchObject({
      name: 'NotChecked',
      message: expect.stringContaining(`(in ${path})`),
    });
    await expectFork(await alarmOf(forkOf(12, 8), NEW_STATE, options));
    // A quorum has signed it since, so the larger checkpoint does not wait.
    const now = () => new Date(NOW.getTime() + 301_000);
    const later = { known: received, policy, now };
    expect((await check(cosignedAgo(-300), NEW_STATE, later)).error).toMatchObject({
      name: 'NotChecked',
    });
    expect((await alarmOf(cosignedAgo(-301), NEW_STATE, later)).message).toBe(rollback);
  });
});

test.each<[string, () => string | Buffer | Promise<string>, RegExp]>([
  ['is malformed', () => 'hunter2', /the text is not a signed note$/],
  ['is not text', () => Buffer.of(255), /the text is not UTF-8$/],
  [
    'is signed by another key',
    () => signCheckpoint(logOf(3).head(), { origin: ORIGIN, key: keyNamed('other') }),
    /there is no signature of plants\.example\/log\+/,
  ],
  [
    'is of another log, whose name has control characters',
    () => signNote(`other\u009b2J\n1\n${Buffer.alloc(32).toString('base64')}\n`, { name: ORIGIN, key: KEY }),
    /to the log other\\u\{9b\}2J, not to plants\.example\/log$/,
  ],
])('a file that %s is an error that names it', async (_, text, message) => {
  const path = file(await text());
  await expect(known(path)).rejects.toThrow(message);
  await expect(known(path)).rejects.toThrow(`cannot use ${path} of --known: `);
});
