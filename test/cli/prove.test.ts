import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { alterLog, appendTo, eventId, plantOf, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openLogReader } from '../../packages/event-log/src/sqlite/read.ts';
import { parseVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { signCheckpoint } from '../../packages/tlog/src/sign/signCheckpoint.ts';
import { rootOfLog } from '../../packages/transparency-log/src/entries/appendEntries.ts';
import { loadExistingLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';
import { runCommand } from '../../packages/transparency-log/test/support/program.ts';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { checkpointOf, startServiceWithTree } from '../support/service.ts';

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

/** A data directory with these plants, which a service has used and no test changes. */
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
  const service = await startServiceWithTree({ DATA_DIR: dir, LOG_ORIGIN: ORIGIN }, afterAll);
  await checkpointOf(PLANTS.length, service.as('carol', 'audit'));
  await service.close();
});

const prove = (...args: string[]) => runCli(['prove', ...args], { DATA_DIR: dir, LOG_ORIGIN: ORIGIN });
/** Runs check-proof with a proof on stdin, and these options. */
const check = (proof: string, ...options: string[]) =>
  runCommand(['check-proof', '--key', vkey, ...options], { input: [proof] });
const ALICE_42 = ['--user', 'alice', '--id', '42'];

function noteAt(size: number, root = roots[size] as string): string {
  const { origin, key } = loadExistingLogKey({
    logKeyFile: join(dir, 'log-key.json'),
    logOrigin: ORIGIN,
    keyFile: join(dir, 'key.json'),
  });
  return signCheckpoint({ size, root }, { origin, key });
}

/** A file with the checkpoint of the log when it had this number of events. */
function checkpointAt(size: number, root?: string): string {
  const file = join(tempDir(), 'checkpoint');
  writeFileSync(file, noteAt(size, root));
  return file;
}

/** A copy of the directory. */
function copied(): string {
  const copy = tempDir();
  cpSync(dir, copy, { recursive: true });
  return copy;
}

describe('prove, and check-proof of what it prints', () => {
  test('prove that the last checkpoint has a plant, and that the log has only grown up to it', async () => {
    const inclusion = succeeded(await prove(...ALICE_42));
    const { id } = EVENTS[4] as { id: string };
    expect(inclusion).toMatch(
      /^c2sp\.org\/tlog-proof@v1\nextra [\w+/=]+\nindex 4\n([\w+/]{43}=\n){3}\nplants/,
    );
    expect(succeeded(await check(inclusion))).toMatch(
      RegExp(
        `^event "${id}" of "plant-alice/42" with the data {.*} is at index 4 of the log ${ORIGIN} 7:${roots[7]}\n$`,
      ),
    );
    for (const from of [1, 2, 5, 7]) {
      const growth = succeeded(await prove('--from', `${from}`));
      expect(succeeded(await prove('--from', checkpointAt(from)))).toBe(growth);
      expect(growth).toMatch(RegExp(`^old ${from}\n([\\w+/]{43}=\n)*\nplants`));
      expect(succeeded(await check(growth, '--expect', checkpointAt(from)))).toBe(
        `the log ${ORIGIN} ${from}:${roots[from]} is the beginning of 7:${roots[7]}\n`,
      );
    }
  });

  test('prove a plant in the cosigned log, if it has the plant', async () => {
    const DATA_DIR = copied();
    const { id } = parseVerifierKey(vkey);
    writeFileSync(join(DATA_DIR, `checkpoint-${id}.cosigned`), `${noteAt(5)}— witness.example/w1 AAAAAAAA\n`);
    const proven = async (...args: string[]) =>
      succeeded(await runCli(['prove', ...args], { DATA_DIR, LOG_ORIGIN: ORIGIN }));
    expect(await proven(...ALICE_42)).toMatch(/\n5\n.*\n\n— .*\n— witness\.example\/w1 AAAAAAAA\n$/);
    expect(await proven('--user', 'bob', '--id', '2')).toMatch(/\n7\n.*\n\n— .*\n$/);
  });

  test('sign nothing, and change no file', async () => {
    const before = readdirSync(dir).map((name) => [name, readFileSync(join(dir, name)).toString('base64')]);
    await prove(...ALICE_42);
    await prove('--from', '3');
    expect(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name)).toString('base64')])).toEqual(
      before,
    );
  });

  test('work beside a running service, for what it has signed', async () => {
    const { as, dir: DATA_DIR } = await startServiceWithTree();
    for (const user of ['alice', 'bob']) await as(user).create(42n, { name: `${user}'s` });
    await checkpointOf(2, as('carol', 'audit'));
    const proof = succeeded(await runCli(['prove', '--user', 'bob', '--id', '42'], { DATA_DIR }));
    const key = succeeded(await runCli(['log-key'], { DATA_DIR })).trim();
    const checked = succeeded(await runCommand(['check-proof', '--key', key], { input: [proof] }));
    expect(checked).toMatch(
      /of "plant-bob\/42" with the data \{.*"name":"bob's".*\} is at index 1 of the log urn:plant-store 2:/,
    );
  });

  test('print the same on EventStoreDB as on the embedded log, and append nothing', async () => {
    const server = await startFakeServer();
    writeTo(server, ...EVENTS);
    const env = {
      DATA_DIR: tempDir(),
      EVENTSTOREDB_URL: server.url,
      LOG_ORIGIN: ORIGIN,
      LOG_KEY_FILE: join(dir, 'log-key.json'),
    };
    const service = await startServiceWithTree(env);
    await checkpointOf(7, service.as('carol', 'audit'));
    await service.close();
    const before = server.log.all.length;
    expect(succeeded(await runCli(['prove', ...ALICE_42], env))).toBe(succeeded(await prove(...ALICE_42)));
    expect(server.log.all).toHaveLength(before);
  });
});

describe('only one line with the reason is printed', () => {
  const EITHER = /requires either --user and --id, or --from\./;

  const plant = (user: string, id: string) => ['--user', user, '--id', id];
  const BEYOND = /--from must be from 1 to 7, the size of the last checkpoint\./;

  test.each<[string, string[], RegExp]>([
    ['for an unknown user', plant('carol', '42'), /"carol" has no plant 42/],
    ['from a size beyond the checkpoint', ['--from', '8'], BEYOND],
    ['from size 0', ['--from', '0'], BEYOND],
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
    ['without options', [], EITHER],
    ['for a user without an id', ['--user', 'alice'], EITHER],
    ['for both kinds of proof', [...ALICE_42, '--from', '1'], EITHER],
    ['for an empty user', plant('', '42'), /--user must be 1 to 255 characters/],
    ['for an ID that is not a number', plant('alice', 'fern'), /--id must be a 64-bit integer/],
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

  test('for a plant after the last checkpoint', async () => {
    const DATA_DIR = copied();
    appendTo(DATA_DIR, plantOf('alice', 8, 'late'));
    const refused = await runCli(['prove', '--user', 'alice', '--id', '8'], { DATA_DIR, LOG_ORIGIN: ORIGIN });
    expectRefused(refused, /the last checkpoint, of 7 events, does not have the plant yet; retry/);
  });

  test.each<[string, (copy: string) => void, object, RegExp]>([
    [
      'without the Merkle tree',
      () => {},
      { MERKLE_TREE: 'off' },
      /requires the Merkle tree: MERKLE_TREE is off\./,
    ],
    [
      'without a saved tree',
      (copy) => rmSync(join(copy, 'merkleTree.db')),
      {},
      /no checkpoint is signed yet/,
    ],
    [
      'without a checkpoint',
      (copy) => rmSync(join(copy, `checkpoint-${parseVerifierKey(vkey).id}`)),
      {},
      /no checkpoint is signed yet: start the service\./,
    ],
    [
      'for a damaged tree',
      (copy) => writeFileSync(join(copy, 'merkleTree.db'), 'damaged'),
      {},
      /not a database/,
    ],
    [
      'for a plant whose event was altered',
      (copy) => alterLog(copy, "UPDATE events SET data = '{}' WHERE position = 5"),
      {},
      /the log contradicts its Merkle tree, or its last checkpoint, at position 5: run verify/,
    ],
  ])('%s', async (_, change, env, line) => {
    const DATA_DIR = copied();
    change(DATA_DIR);
    expectRefused(await runCli(['prove', ...ALICE_42], { DATA_DIR, LOG_ORIGIN: ORIGIN, ...env }), line);
  });
});

describe('verify --expect', () => {
  const verify = (file: string, env = {}) =>
    runCli(['verify', '--expect', file], { DATA_DIR: dir, LOG_ORIGIN: ORIGIN, ...env });

  test('takes a file with a checkpoint, and verifies its signature', async () => {
    const file = checkpointAt(5);
    expect(succeeded(await verify(file))).toMatch(
      RegExp(`^expected {2}the log begins with 5:${roots[5]}\n(.*\n)+problems +none$`, 'm'),
    );
    writeFileSync(file, noteAt(2, roots[3]));
    const { code, stdout } = await verify(file);
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: expect.stringContaining('the first 2 events are not'),
    });
  });

  test('refuses a checkpoint whose signature is invalid', async () => {
    const file = checkpointAt(5);
    writeFileSync(file, readFileSync(file, 'utf8').replace('\n5\n', '\n6\n'));
    expectRefused(await verify(file), /the signature of plants\.example\/log is invalid/);
  });

  test('reports that it cannot verify the signature of another log, or without the key', async () => {
    const file = checkpointAt(5);
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
