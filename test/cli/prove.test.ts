import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { rootOfLog } from '../../src/audit/proof.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { expectRefused, failure, runCli, succeeded } from '../support/cli.ts';
import { appendTo, eventId, plantOf, writeTo } from '../support/logs.ts';
import { startService } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

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
let dir: string;
/** The roots of its log at sizes 0 to 7. */
const roots: string[] = [];

beforeAll(async () => {
  dir = appendTo(mkdtempSync(join(tmpdir(), 'plant-store-')), ...EVENTS);
  const log = openLogReader(join(dir, 'log.db'), { exact: true });
  const { signal } = new AbortController();
  for (let size = 0; size <= PLANTS.length; size++) roots.push((await rootOfLog(log, signal, size)).root);
  await log.close();
  return () => rmSync(dir, { recursive: true });
});

const prove = (...args: string[]) => runCli(['prove', ...args], { DATA_DIR: dir });
/** Runs check-proof with these pieces on stdin. */
const check = (...proof: (string | Buffer)[]) => runCli(['check-proof'], {}, proof);
const ALICE_42 = ['--user', 'alice', '--id', '42'];

describe('npm run prove, and npm run check-proof of what it prints', () => {
  test('prove that a plant is in the log, and that a log is append-only', async () => {
    const proofs = [succeeded(await prove(...ALICE_42)), succeeded(await prove('--from', '5'))] as const;
    for (const proof of proofs) expect(proof).toMatch(/^\{.*\}\n$/); // in one line
    const { event } = JSON.parse(proofs[0]);
    expect([succeeded(await check(proofs[0])), succeeded(await check(proofs[1]))]).toEqual([
      `event "${event.id}" of "plant-alice/42" is number 5 of the log 7:${roots[7]}\n`,
      `the log 5:${roots[5]} is the beginning of the log 7:${roots[7]}\n`,
    ]);
  });

  test('prove the log at an earlier size, too', async () => {
    const checked: string[] = [];
    for (const args of [
      ['--user', 'bob', '--id', '42', '--size', '3'],
      ['--user', 'alice', '--id', '-9223372036854775808', '--size', '3'],
      ['--from', '2', '--to', '3'],
      ['--from', '3', '--to', '3'],
    ])
      checked.push(succeeded(await check(succeeded(await prove(...args)))));
    const log = `the log 3:${roots[3]}\n`;
    expect(checked).toEqual([
      expect.stringMatching(RegExp(` of "plant-bob/42" is number 2 of ${log}$`)),
      expect.stringMatching(RegExp(` of "plant-alice/-9223372036854775808" is number 3 of ${log}$`)),
      `the log 2:${roots[2]} is the beginning of ${log}`,
      `the log 3:${roots[3]} is the beginning of ${log}`,
    ]);
  });

  test('work beside a running service, and include acknowledged events', async () => {
    const { as, dir: DATA_DIR } = await startService();
    for (const user of ['alice', 'bob']) await as(user).create(42n, { name: `${user}'s` });
    const proof = succeeded(await runCli(['prove', '--user', 'bob', '--id', '42'], { DATA_DIR }));
    expect(JSON.parse(proof)).toMatchObject({ size: 2, index: 1, event: { data: { name: "bob's" } } });
    await as('alice').create(43n, { name: 'Ivy' });
    const later = succeeded(await runCli(['prove', '--from', '2'], { DATA_DIR }));
    expect(JSON.parse(later)).toMatchObject({ from: { root: JSON.parse(proof).root }, to: { size: 3 } });
  });

  test('print the same on EventStoreDB as on the embedded log', async () => {
    const server = await startFakeServer();
    writeTo(server, ...EVENTS);
    for (const args of [ALICE_42, ['--from', '5', '--to', '6']]) {
      const there = await runCli(['prove', ...args], { EVENTSTOREDB_URL: server.url });
      expect(succeeded(there)).toBe(succeeded(await prove(...args)));
    }
  });

  test('read a proof in any JSON form, also with colons and quotes in text', async () => {
    const text = ':"\\:\\"::';
    const DATA_DIR = appendTo(tempDir(), plantOf('alice', 1, text), plantOf('bob', 2, text));
    const proof = succeeded(await runCli(['prove', '--user', 'alice', '--id', '1'], { DATA_DIR }));
    expect(JSON.parse(proof).event.data.name).toBe(text);
    expect(succeeded(await check(JSON.stringify(JSON.parse(proof), null, 2)))).toContain(' is number 1 of ');
  });

  test('read a proof in pieces of any size', async () => {
    const proof = Buffer.from(succeeded(await prove(...ALICE_42)));
    const bytes = Array.from(proof, (byte) => Buffer.of(byte));
    expect(succeeded(await check(...bytes))).toBe(succeeded(await check(proof)));
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
    ['for an unknown plant', plant('alice', '2'), hasNo('alice', '2', 7)],
    ['for a plant of another user', plant('bob', '-1'), hasNo('bob', '-1', 7)],
    ['for a plant beyond the size', [...ALICE_42, '--size', '4'], hasNo('alice', '42', 4)],
    ['for a size beyond the log', [...ALICE_42, '--size', '8'], BEYOND],
    ['for a later log beyond the log', ['--from', '3', '--to', '8'], BEYOND],
    ['for an earlier log beyond the log', ['--from', '8'], BEYOND],
    ['from later to earlier', ['--from', '3', '--to', '2'], /--from must not be greater than --to\./],
    ['from size 0', ['--from', '0'], /--from must be at least 1\./],
    ['from size 0 to size 0', ['--from', '0', '--to', '0'], /--from must be at least 1\./],
    ['without options', [], EITHER],
    ['for a user without an id', ['--user', 'alice'], EITHER],
    ['for an id without a user', ['--id', '42'], EITHER],
    ['for --to alone', ['--to', '7'], EITHER],
    ['for --size alone', ['--size', '7'], EITHER],
    ['for both kinds of proof', [...ALICE_42, '--from', '1'], EITHER],
    ['for a plant and --to', [...ALICE_42, '--to', '7'], EITHER],
    ['for a user and --from', ['--user', 'alice', '--from', '1'], EITHER],
    ['for --from and --size', ['--from', '1', '--size', '7'], EITHER],
    ['for an empty user', plant('', '42'), /--user must be 1 to 255 characters/],
    ['for a user with a line feed', plant('alice\n', '42'), /--user must be 1 to 255 characters/],
    ['for an ID with a leading zero', plant('alice', '042'), /--id must be a 64-bit integer/],
    ['for an id beyond 64 bits', plant('alice', `${2n ** 63n}`), /--id must be a 64-bit integer/],
    ['for an ID that is not a number', plant('alice', 'fern'), /--id must be a 64-bit integer/],
    ['for a negative size', [...ALICE_42, '--size', '-1'], /--size must be a number of events\./],
    ['for a size with a fraction', ['--from', '1.5'], /--from must be a number of events\./],
    ['for an invalid size', ['--from', '1', '--to', '1e3'], /--to must be a number of events\./],
    ['for an infinite size', ['--from', '9'.repeat(400)], /--from must be a number of events\./],
    ['for an empty size', ['--from', ''], /--from must be a number of events\./],
    ['for an option without its value', ['--from'], /option '--from <events>' argument missing/],
  ])('%s', async (_, args, line) => {
    expectRefused(await prove(...args), line);
  });

  const NOT_JSON = 'not a proof: it is not JSON';
  const NONE = 'not an inclusion or consistency proof, or it is damaged';
  const DAMAGED = 'the proof is invalid: its event is not in a log with its size and root';
  const TOO_LARGE = 'not a proof: it is too large';
  const DUPLICATE = 'not a proof: an object in it has two members with the same name';
  test.each<[string, (proof: string) => string | Buffer, string]>([
    ['no input', () => '', NOT_JSON],
    ['space', () => ' \n', NOT_JSON],
    ['an incomplete proof', (proof) => proof.slice(0, proof.length / 2), NOT_JSON],
    ['two proofs', (proof) => `${proof}${proof}`, NOT_JSON],
    ['binary data', () => Buffer.of(0, 255), NOT_JSON],
    ['a million brackets', () => '['.repeat(1_000_000), NOT_JSON],
    ['null', () => 'null', NONE],
    ['a million quotes', () => JSON.stringify('"'.repeat(1_000_000)), NONE],
    ['a proof without its members', () => '{"proof":"inclusion"}', NONE],
    ['a list of proofs', (proof) => `[${proof}]`, NONE],
    ['a proof whose event has another name', (proof) => proof.replace('emoji', 'Emoji'), DAMAGED],
    ['a proof whose event has another index', (proof) => proof.replace('"index":4', '"index":5'), DAMAGED],
    ['a proof with two sizes', (proof) => proof.replace('{', '{"size":9,'), DUPLICATE],
    ['a proof with the same size twice', (proof) => proof.replace(/"size":\d+,/, '$&$&'), DUPLICATE],
    ['an event with two names', (proof) => proof.replace('"name":', '"name":"Fern",$&'), DUPLICATE],
    [
      'an event with two names, one escaped',
      (proof) => proof.replace('"name":', '"n\\u0061me":"",$&'),
      DUPLICATE,
    ],
    ['an input that is too large', () => Buffer.alloc(17 * 1024 * 1024, ' '), TOO_LARGE],
  ])('by check-proof, for %s', async (_, damage, message) => {
    const proof = succeeded(await prove(...ALICE_42));
    expect(await check(damage(proof))).toEqual(failure(message));
  });
});
