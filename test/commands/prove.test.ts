import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { rootOfLog } from '../../src/audit/proof.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { startDouble } from '../copy/logs.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { appendTo, eventId, writeTo } from '../support/logs.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { expectRefused, typed } from './typed.ts';

/** In log order. */
const GARDEN: [user: string, id: bigint, name: string][] = [
  ['alice', 1n, 'Fern'],
  ['bob', 42n, 'Oak'],
  ['alice', -(2n ** 63n), 'nul \0, quote ", line \u2028 \r\n'],
  ['bob', 1n, ''],
  ['alice', 42n, 'emoji 🌱, \u007f'],
  ['bob', 2n, 'Moss'],
  ['alice', 2n ** 63n - 1n, 'Ivy'],
];

const EVENTS = GARDEN.map(([user, id, name], i) => ({
  id: eventId(i + 1),
  stream: `plant-${user}/${id}`,
  data: { id: `${id}`, user, name },
}));

/** A data directory with their plants, which no test writes to. */
let dir: string;
/** The roots of its log of 0 to 7 events. */
const roots: string[] = [];

beforeAll(async () => {
  dir = appendTo(mkdtempSync(join(tmpdir(), 'plant-store-')), ...EVENTS);
  const log = openSqliteLog(join(dir, 'log.db'), { exact: true });
  const { signal } = new AbortController();
  for (let size = 0; size <= GARDEN.length; size++) roots.push((await rootOfLog(log, signal, size)).root);
  await log.close();
  return () => rmSync(dir, { recursive: true });
});

const prove = (...args: string[]) => typed(['prove', ...args], { DATA_DIR: dir });
/** What check-proof says of what it reads, piece by piece. */
const check = (...proof: (string | Buffer)[]) => typed(['check-proof'], {}, proof);
const ALICE_42 = ['--user', 'alice', '--id', '42'];

describe('npm run prove, and npm run check-proof of what it prints', () => {
  test('show that a plant is in the log, and that a log has only grown', async () => {
    const proofs = [succeeded(await prove(...ALICE_42)), succeeded(await prove('--from', '5'))] as const;
    for (const proof of proofs) expect(proof).toMatch(/^\{.*\}\n$/); // in one line
    const { event } = JSON.parse(proofs[0]);
    expect([succeeded(await check(proofs[0])), succeeded(await check(proofs[1]))]).toEqual([
      `event "${event.id}" of "plant-alice/42" is number 5 of the log 7:${roots[7]}\n`,
      `the log 5:${roots[5]} is the beginning of the log 7:${roots[7]}\n`,
    ]);
  });

  test('speak of the log as it was, too', async () => {
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

  test('work beside a running service, and are of what it has acknowledged', async () => {
    const { as, dir: DATA_DIR } = await startService();
    for (const user of ['alice', 'bob']) await as(user).create(42n, { name: `${user}'s` });
    const proof = succeeded(await typed(['prove', '--user', 'bob', '--id', '42'], { DATA_DIR }));
    expect(JSON.parse(proof)).toMatchObject({ size: 2, index: 1, event: { data: { name: "bob's" } } });
    await as('alice').create(43n, { name: 'Ivy' });
    const later = succeeded(await typed(['prove', '--from', '2'], { DATA_DIR }));
    expect(JSON.parse(later)).toMatchObject({ from: { root: JSON.parse(proof).root }, to: { size: 3 } });
  });

  test('give the same on EventStoreDB as on the embedded log', async () => {
    const double = await startDouble();
    writeTo(double, ...EVENTS);
    for (const args of [ALICE_42, ['--from', '5', '--to', '6']]) {
      const there = await typed(['prove', ...args], { EVENTSTOREDB_URL: double.url });
      expect(succeeded(there)).toBe(succeeded(await prove(...args)));
    }
  });

  test('explain themselves', async () => {
    expect(succeeded(await typed(['prove', '--help']))).toContain('--user USER --id ID');
    expect(succeeded(await typed(['check-proof', '--help']))).toContain('< proof.json');
  });

  test('read a proof in whatever pieces it comes', async () => {
    const proof = Buffer.from(succeeded(await prove(...ALICE_42)));
    const bytes = Array.from(proof, (byte) => Buffer.of(byte));
    expect(succeeded(await check(...bytes))).toBe(succeeded(await check(proof)));
  });
});

describe('nothing is printed, and one line says why', () => {
  const EITHER = /either --user and --id are needed, or --from\./;

  test.each<[string, string[], RegExp]>([
    [
      'for an unknown user',
      ['--user', 'carol', '--id', '42'],
      /"carol" has no plant 42 among the first 7 events/,
    ],
    [
      'for an unknown plant',
      ['--user', 'alice', '--id', '2'],
      /"alice" has no plant 2 among the first 7 events/,
    ],
    ['for a plant of somebody else', ['--user', 'bob', '--id', '-1'], /"bob" has no plant -1 among/],
    ['for a plant to come', [...ALICE_42, '--size', '4'], /"alice" has no plant 42 among the first 4 events/],
    ['for a size beyond the log', [...ALICE_42, '--size', '8'], /the log has 7 events, not 8/],
    ['for a later log beyond the log', ['--from', '3', '--to', '8'], /the log has 7 events, not 8/],
    ['for an earlier log beyond the log', ['--from', '8'], /the log has 7 events, not 8/],
    ['from later to earlier', ['--from', '3', '--to', '2'], /--from must not be greater than --to\./],
    ['from nothing', ['--from', '0'], /--from must be at least 1\./],
    ['from nothing to nothing', ['--from', '0', '--to', '0'], /--from must be at least 1\./],
    ['without options', [], EITHER],
    ['for a user without an id', ['--user', 'alice'], EITHER],
    ['for an id without a user', ['--id', '42'], EITHER],
    ['to a size from nowhere', ['--to', '7'], EITHER],
    ['for a size alone', ['--size', '7'], EITHER],
    ['for both at once', [...ALICE_42, '--from', '1'], EITHER],
    ['for a plant up to a size', [...ALICE_42, '--to', '7'], EITHER],
    ['for a user and a size to begin with', ['--user', 'alice', '--from', '1'], EITHER],
    ['from a size in a log of a size', ['--from', '1', '--size', '7'], EITHER],
    ['for a user of no name', ['--user', '', '--id', '42'], /--user must be .* the name of a user/],
    [
      'for a user with a line end',
      ['--user', 'alice\n', '--id', '42'],
      /--user must be .* the name of a user/,
    ],
    [
      'for an id with a zero before it',
      ['--user', 'alice', '--id', '042'],
      /--id must be .* an integer of 64 bits/,
    ],
    ['for an id beyond 64 bits', ['--user', 'alice', '--id', `${2n ** 63n}`], /--id must be .* of 64 bits/],
    ['for an id that is none', ['--user', 'alice', '--id', 'fern'], /--id must be .* an integer of 64 bits/],
    ['for a negative size', [...ALICE_42, '--size', '-1'], /--size must be a number of events\./],
    ['for a size with a fraction', ['--from', '1.5'], /--from must be a number of events\./],
    ['for a size that is none', ['--from', '1', '--to', '1e3'], /--to must be a number of events\./],
    ['for a size without end', ['--from', '9'.repeat(400)], /--from must be a number of events\./],
    ['for an empty size', ['--from', ''], /--from must be a number of events\./],
    ['for an option without its value', ['--from'], /option '--from <events>' argument missing/],
    ['for an unknown option', ['--form', '3'], /unknown option '--form'/],
    ['for an argument that nobody asked for', ['--from', '3', 'x'], /too many arguments/],
  ])('%s', async (_, args, line) => {
    expectRefused(await prove(...args), line);
  });

  test('where there is no log, on either store', async () => {
    const [DATA_DIR, missing] = [tempDir(), join(tempDir(), 'nowhere')];
    expectRefused(await typed(['prove', '--from', '1'], { DATA_DIR }), /there is no log .*log\.db/);
    expectRefused(await typed(['prove', '--from', '1'], { DATA_DIR: missing }), /there is no log .*nowhere/);
    const EVENTSTOREDB_URL = 'esdb://127.0.0.1:1?tls=false';
    stopClock();
    const asked = typed(['prove', '--from', '1'], { DATA_DIR: dir, EVENTSTOREDB_URL });
    expectRefused((await untilSettled(asked))[0], /EventStoreDB cannot be reached/);
  });

  const NOT_JSON = 'this is no proof: it is not JSON';
  const NONE = 'this is no proof of inclusion or consistency, or it is damaged';
  const DAMAGED = 'the proof does not hold: its event is not in a log with its size and root';
  const TOO_LARGE = 'this is no proof: it is too large';
  test.each<[string, (proof: string) => string | Buffer, string]>([
    ['no input', () => '', NOT_JSON],
    ['space', () => ' \n', NOT_JSON],
    ['half a proof', (proof) => proof.slice(0, proof.length / 2), NOT_JSON],
    ['two proofs', (proof) => `${proof}${proof}`, NOT_JSON],
    ['bytes', () => Buffer.of(0, 255), NOT_JSON],
    ['brackets without end', () => '['.repeat(1_000_000), NOT_JSON],
    ['null', () => 'null', NONE],
    ['a proof of nothing', () => '{"proof":"inclusion"}', NONE],
    ['a list of proofs', (proof) => `[${proof}]`, NONE],
    ['a proof whose event has another name', (proof) => proof.replace('emoji', 'Emoji'), DAMAGED],
    ['a proof whose event has another place', (proof) => proof.replace('"index":4', '"index":5'), DAMAGED],
    ['more than any proof can have', () => Buffer.alloc(17 * 1024 * 1024, ' '), TOO_LARGE],
  ])('by check-proof, for %s', async (_, damage, message) => {
    const proof = succeeded(await prove(...ALICE_42));
    expect(await check(damage(proof))).toEqual({ code: 1, stdout: '', stderr: `${message}\n` });
  });
});

type Ended = { code: number | null; stdout: string; stderr: string };

/** What a command prints that has nothing to complain of. */
function succeeded({ code, stdout, stderr }: Ended): string {
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}
