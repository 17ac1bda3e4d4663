import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { appendTo, eventId, plantOf, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { openLogReader } from '../../packages/event-log/src/sqlite/read.ts';
import { rootOfLog } from '../../packages/transparency-log/src/entries/appendLeaves.ts';
import { parseVerifierKey } from '../../packages/transparency-log/src/notes/signedNote.ts';
import { CheckpointSigner } from '../../packages/transparency-log/src/signer/checkpointSigner.ts';
import { runCommand } from '../../packages/transparency-log/test/support/program.ts';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { startServiceWithTree } from '../support/service.ts';

/** In log order. */
const PLANTS: [user: string, id: bigint, name: string][] = [
  ['alice', 1n, 'Fern'],
  ['bob', 42n, 'Oak'],
  ['alice', -(2n ** 63n), 'nul \0, quote ", line \u2028 \r\n'],
  ['bob', 1n, ''],
  ['alice', 42n, 'emoji 🌱, \u007f'],
  ['bob', 2n, 'Moss'],
  ['alice', 2n ** 63n - 1n, 'Ivy'],
];

const EVENTS = PLANTS.map(([user, id, name], i) => ({
  id: eventId(i + 1),
  stream: `plant-${user}/${id}`,
  data: { id: `${id}`, user, name },
}));

/** A data directory with these plants, which no test changes. */
const dir = appendTo(tempDir(afterAll), ...EVENTS);
const ORIGIN = 'plants.example/log';
/** The verifier key of its log. */
let vkey: string;
/** The roots of its log at sizes 0 to 7. */
const roots: string[] = [];

beforeAll(async () => {
  const log = openLogReader(join(dir, 'log.db'), { forHashing: true });
  const { signal } = new AbortController();
  for (let size = 0; size <= PLANTS.length; size++) roots.push((await rootOfLog(log, signal, size)).root);
  await log.close();
  vkey = (await runCli(['log-key'], { DATA_DIR: dir, LOG_ORIGIN: ORIGIN })).stdout.trim();
});

const prove = (...args: string[]) => runCli(['prove', ...args], { DATA_DIR: dir, LOG_ORIGIN: ORIGIN });
/** Runs check-proof with a proof on stdin, and these options. */
const check = (proof: string, ...options: string[]) =>
  runCommand(['check-proof', '--key', vkey, ...options], { input: [proof] });
const ALICE_42 = ['--user', 'alice', '--id', '42'];

/** A file with the checkpoint of the log when it had so many events. */
async function checkpointAt(size: number): Promise<string> {
  const file = join(tempDir(), 'checkpoint');
  const proof = succeeded(await prove('--from', '1', '--to', `${size}`));
  writeFileSync(file, proof.slice(proof.indexOf('\n\n') + 2));
  return file;
}

describe('prove, and check-proof of what it prints', () => {
  test('prove that a plant is in the log, and that a log is append-only', async () => {
    const inclusion = succeeded(await prove(...ALICE_42));
    const { id } = EVENTS[4] as { id: string };
    expect(inclusion).toMatch(
      /^c2sp\.org\/tlog-proof@v1\nextra [\w+/=]+\nindex 4\n([\w+/]{43}=\n){3}\nplants/,
    );
    expect(succeeded(await check(inclusion))).toEqual(
      expect.stringMatching(
        RegExp(
          `^event "${id}" of "plant-alice/42" with the data {.*} is number 5 of the log ${ORIGIN} 7:${roots[7]}\n$`,
        ),
      ),
    );
    const consistency = succeeded(await prove('--from', '5'));
    expect(succeeded(await prove('--from', await checkpointAt(5)))).toBe(consistency);
    expect(consistency).toMatch(/^old 5\n([\w+/]{43}=\n)+\nplants/);
    expect(succeeded(await check(consistency, '--expect', await checkpointAt(5)))).toBe(
      `the log ${ORIGIN} 5:${roots[5]} is the beginning of 7:${roots[7]}\n`,
    );
  });

  test('prove a plant at any size that includes it, and growth between any sizes', async () => {
    for (const [user, id, number, size] of [
      ['bob', '42', 2, 2],
      ['alice', '42', 5, 6],
      ['bob', '2', 6, 7],
    ] as const) {
      const proof = succeeded(await prove('--user', user, '--id', id, '--size', `${size}`));
      expect(succeeded(await check(proof))).toMatch(
        RegExp(`number ${number} of .* ${size}:${roots[size]}\n$`),
      );
    }
    for (const [from, to] of [
      [1, 2],
      [2, 7],
      [7, 7],
    ] as const) {
      const proof = succeeded(await prove('--from', `${from}`, '--to', `${to}`));
      expect(succeeded(await check(proof, '--expect', `${from}:${roots[from]}`))).toMatch(
        RegExp(` ${to}:${roots[to]}\n$`),
      );
    }
  });

  test('prove a plant in the cosigned log, if it has the plant', async () => {
    const copy = tempDir();
    cpSync(dir, copy, { recursive: true });
    const note = readFileSync(await checkpointAt(5), 'utf8');
    const { id } = parseVerifierKey(vkey);
    writeFileSync(join(copy, `checkpoint-${id}.cosigned`), `${note}— witness.example/w1 AAAAAAAA\n`);
    const proven = async (...args: string[]) =>
      succeeded(await runCli(['prove', ...args], { DATA_DIR: copy, LOG_ORIGIN: ORIGIN }));
    expect(await proven(...ALICE_42)).toMatch(/\n5\n.*\n\n— .*\n— witness\.example\/w1 AAAAAAAA\n$/);
    expect(await proven('--user', 'bob', '--id', '2')).toMatch(/\n7\n.*\n\n— .*\n$/);
    expect(await proven(...ALICE_42, '--size', '6')).toMatch(/\n6\n.*\n\n— .*\n$/);
  });

  test('need no saved tree: it may be missing, damaged or switched off', async () => {
    const copy = tempDir();
    cpSync(dir, copy, { recursive: true });
    const proof = succeeded(await prove(...ALICE_42));
    writeFileSync(join(copy, 'merkleTree.db'), 'damaged');
    for (const MERKLE_TREE of ['on', 'off'])
      expect(
        succeeded(await runCli(['prove', ...ALICE_42], { DATA_DIR: copy, LOG_ORIGIN: ORIGIN, MERKLE_TREE })),
      ).toBe(proof);
  });

  test('extend what a service beside them has signed meanwhile', async () => {
    const DATA_DIR = appendTo(tempDir(), ...EVENTS);
    await runCli(['log-key'], { DATA_DIR });
    const paths: unknown[] = [];
    const sign = vi.spyOn(CheckpointSigner.prototype, 'sign');
    onTestFinished(() => sign.mockRestore());
    sign.mockImplementationOnce(async (head, proveConsistency) => {
      appendTo(DATA_DIR, plantOf('carol', 8, 'meanwhile'));
      paths.push(await proveConsistency(7, 8), await proveConsistency(7, 9));
      return { ...head, origin: ORIGIN, note: 'signed\n' };
    });
    expect(succeeded(await runCli(['prove', '--from', '5'], { DATA_DIR }))).toMatch(/signed\n$/);
    const hash = expect.any(String);
    expect(paths).toEqual([[hash, hash, hash, hash], undefined]);
  });

  test('work beside a running service, and include acknowledged events', async () => {
    const { as, dir: DATA_DIR } = await startServiceWithTree();
    for (const user of ['alice', 'bob']) await as(user).create(42n, { name: `${user}'s` });
    const proof = succeeded(await runCli(['prove', '--user', 'bob', '--id', '42'], { DATA_DIR }));
    const key = succeeded(await runCli(['log-key'], { DATA_DIR })).trim();
    const checked = succeeded(await runCommand(['check-proof', '--key', key], { input: [proof] }));
    expect(checked).toMatch(
      /of "plant-bob\/42" with the data \{.*"name":"bob's".*\} is number 2 of the log urn:plant-store 2:/,
    );
  });

  test('print the same on EventStoreDB as on the embedded log, and write only what was signed', async () => {
    const server = await startFakeServer();
    writeTo(server, ...EVENTS);
    const env = {
      DATA_DIR: join(tempDir(), 'data'),
      EVENTSTOREDB_URL: server.url,
      LOG_ORIGIN: ORIGIN,
      LOG_KEY_FILE: join(dir, 'log-key.json'),
    };
    const there = await runCli(['prove', ...ALICE_42], env);
    expect(succeeded(there)).toBe(succeeded(await prove(...ALICE_42)));
    expect(server.log.all).toHaveLength(EVENTS.length);
    expect(readdirSync(env.DATA_DIR).toSorted()).toEqual([
      expect.stringMatching(/^checkpoint-[\da-f]{8}/),
      'checkpoint.lock',
    ]);
  });
});

describe('only one line with the reason is printed', () => {
  const EITHER = /requires either --user and --id, or --from\./;

  const plant = (user: string, id: string) => ['--user', user, '--id', id];
  const hasNo = (user: string, id: string, events: number) =>
    RegExp(`"${user}" has no plant ${id} among the first ${events} events`);
  const BEYOND = /the log has 7 events, fewer than 8/;

  test.each<[string, string[], RegExp]>([
    ['for an unknown user', plant('carol', '42'), hasNo('carol', '42', 7)],
    ['for a size before the plant', [...ALICE_42, '--size', '4'], hasNo('alice', '42', 4)],
    ['for size 0', [...ALICE_42, '--size', '0'], hasNo('alice', '42', 0)],
    ['for a size beyond the log', [...ALICE_42, '--size', '8'], BEYOND],
    ['from a size beyond the log', ['--from', '8'], BEYOND],
    ['to a size beyond the log', ['--from', '3', '--to', '8'], BEYOND],
    ['from later to earlier', ['--from', '3', '--to', '2'], /--from must not be greater than --to\./],
    [
      'from a file that does not exist',
      ['--from', 'five'],
      /--from must be a number of events or a file .* the file "five" does not exist\./,
    ],
    [
      'from a size and a root',
      ['--from', `2:${'0'.repeat(64)}`],
      /--from must be a number of events or a file/,
    ],
    ['from size 0', ['--from', '0'], /--from must be at least 1\./],
    ['without options', [], EITHER],
    ['for a user without an id', ['--user', 'alice'], EITHER],
    ['for both kinds of proof', [...ALICE_42, '--from', '1'], EITHER],
    ['for an empty user', plant('', '42'), /--user must be 1 to 255 characters/],
    ['for an ID that is not a number', plant('alice', 'fern'), /--id must be a 64-bit integer/],
    ['for a negative size', [...ALICE_42, '--size', '-1'], /--size must be a number of events\./],
    ['for an invalid size', ['--from', '1', '--to', '1e3'], /--to must be a number of events\./],
    ['for an infinite size', ['--from', '9'.repeat(400)], /--from must be a number of events\./],
  ])('%s', async (_, args, line) => {
    expectRefused(await prove(...args), line);
  });

  test('for a log without a key, which is not created', async () => {
    const DATA_DIR = appendTo(tempDir(), ...EVENTS);
    const refused = await runCli(['prove', ...ALICE_42], { DATA_DIR });
    expectRefused(refused, /cannot use the key file .*log-key\.json: ENOENT/);
    expect(readdirSync(DATA_DIR)).not.toContain('log-key.json');
  });
});

describe('verify --expect', () => {
  const verify = (file: string, env = {}) =>
    runCli(['verify', '--expect', file], { DATA_DIR: dir, LOG_ORIGIN: ORIGIN, ...env });

  test('takes a file with a checkpoint, and verifies its signature', async () => {
    const file = await checkpointAt(5);
    expect(succeeded(await verify(file))).toMatch(
      RegExp(`^expected {2}the log begins with 5:${roots[5]}\n(.*\n)+problems +none$`, 'm'),
    );
    const other = succeeded(
      await runCli(['prove', '--from', '1'], {
        DATA_DIR: appendTo(tempDir(), plantOf('alice', 1, 'Ivy'), plantOf('bob', 2, 'Elm')),
        LOG_KEY_FILE: join(dir, 'log-key.json'),
        LOG_ORIGIN: ORIGIN,
      }),
    );
    writeFileSync(file, other.slice(other.indexOf('\n\n') + 2));
    const { code, stdout } = await verify(file);
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: expect.stringContaining('the first 2 events are not'),
    });
  });

  test('refuses a checkpoint whose signature is invalid', async () => {
    const file = await checkpointAt(5);
    writeFileSync(file, readFileSync(file, 'utf8').replace('\n5\n', '\n6\n'));
    expectRefused(await verify(file), /the signature of plants\.example\/log is invalid/);
  });

  test('reports that it cannot verify the signature of another log, or without the key', async () => {
    const file = await checkpointAt(5);
    const renamed = await verify(file, { LOG_ORIGIN: 'other.example' });
    expect(renamed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^problems +none$/m) });
    expect(renamed.stderr).toBe(
      `the signature of the checkpoint was not checked: its origin is ${ORIGIN}, but LOG_ORIGIN is other.example\n`,
    );
    const LOG_KEY_FILE = join(tempDir(), 'log-key.json');
    const { code, stderr } = await verify(file, { LOG_KEY_FILE });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: `the signature of the checkpoint was not checked: ${LOG_KEY_FILE} does not exist\n`,
    });
    expect(existsSync(LOG_KEY_FILE)).toBe(false);
  });
});
