import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RecordedEvent } from '@event-sourced/event-log';
import { type CloudEvent, toCloudEvent } from '@event-sourced/event-log/replay';
import { MerkleTree } from '@event-sourced/tlog';
import { digestOf, eventEntry, hashedAttributes, stubOf } from '@event-sourced/transparency-log/digest';
import { describe, expect, test } from 'vitest';
import { entryLeafHash } from '../../packages/tlog/src/merkle/merkleTree.ts';
import { canRun, ROOT, run } from '../support/process.ts';

const hasPython = canRun('docs/tools/root.py', ['python3', '--version']);
/** Python itself: the `python3` of a version manager is a script, which takes five times as long to start. */
const PYTHON =
  `${spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).stdout}`.trim();

type Event = Omit<RecordedEvent, 'position'>;

const idOf = (number: number) => `019a0000-0000-7000-8000-${String(number).padStart(12, '0')}`;
const plant = (user: string, number: number): Event => ({
  stream: `plant-${user}/${number}`,
  revision: 0n,
  id: idOf(number),
  type: 'PlantCreated',
  data: { id: `${number}`, user, name: 'Fern 🌿' },
  metadata: { occurredAt: '2026-03-01T12:00:00.000Z', schemaVersion: 1 },
});
const recordOf = (data: unknown, number: number): Event => ({
  stream: `plant-erasure-${idOf(number)}`,
  revision: 0n,
  id: idOf(number),
  type: 'EventsErased',
  data,
  metadata: { occurredAt: '2026-03-02T12:00:00.000Z' },
});
const record = (number: number, ...erased: number[]) => recordOf({ erased }, number);
const stub = (event: Event): Event => stubOf(digestOf(event), 'plant-');
const line = (event: Event, index = 0): CloudEvent =>
  toCloudEvent(
    { ...event, position: BigInt(index + 1) },
    { source: 'urn:plant-store', hashed: hashedAttributes },
  );

/** SIZE:ROOT of events. */
function head(events: readonly Event[]): string {
  const tree = new MerkleTree();
  for (const event of events) tree.append(entryLeafHash(eventEntry({ ...event })));
  return `${tree.size}:${tree.root()}`;
}

const END = '{"end":"9"}\n';

/** Runs the script on lines, or on the lines of events, and the last line of a replay. */
const root = (given: readonly (Event | CloudEvent | string)[], ...args: string[]) => {
  const lines = given.map((one, index) => {
    if (typeof one === 'string') return one;
    return JSON.stringify('specversion' in one ? one : line(one, index));
  });
  return runScript(`${lines.map((one) => `${one}\n`).join('')}${END}`, ...args);
};
const runScript = (input: string, ...args: string[]) =>
  run({ command: [PYTHON, join(ROOT, 'docs/tools/root.py'), ...args] }, input);

const refused = (message: string, code = 1) => ({
  code,
  stdout: '',
  stderr: expect.stringContaining(message),
  signal: null,
});
const AGAIN = 'fetch the checkpoint and the events again; if that changes nothing, an event may be hidden\n';

const [fern, moss, oak] = [plant('alice', 1), plant('bob', 2), plant('alice', 3)];

describe.runIf(hasPython)('docs/tools/root.py', () => {
  test('prints the root of events', async () => {
    expect(await root([fern, moss, oak])).toEqual({
      code: 0,
      signal: null,
      stdout: `${head([fern, moss, oak])}\n`,
      stderr: '',
    });
  });

  test('prints the same root after an erasure, and how much is erased', async () => {
    const erased = [stub(fern), moss, stub(oak), record(4, 0, 2)];
    expect(await root(erased)).toEqual({
      code: 0,
      signal: null,
      stdout: `${head([fern, moss, oak, record(4, 0, 2)])}\n`,
      stderr: 'erased: 2 events, 1 record\n',
    });
  });

  test('accepts a second record that names an event again', async () => {
    const { code, stderr } = await root([stub(fern), record(2, 0), record(3, 0)]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'erased: 1 event, 2 records\n' });
  });

  test('ignores lines after SIZE, as stubs and as records', async () => {
    const first = await root([fern, moss, stub(oak), record(4, 0)], '2');
    expect(first).toMatchObject({ code: 0, stdout: `${head([fern, moss])}\n`, stderr: '' });
    expect(await root([stub(fern), moss, record(3, 0)], '2')).toEqual(
      refused(`line 1 is erased, and no later line is the record of it: ${AGAIN}`),
    );
  });

  describe('refuses', () => {
    test('a hidden event: a stub without a record', async () => {
      expect(await root([stub(fern), moss])).toEqual(
        refused(`line 1 is erased, and no later line is the record of it: ${AGAIN}`),
      );
    });

    test('a stub whose only record precedes it', async () => {
      const message = `line 2 is a false record: {"erased": [2]}`;
      expect(await root([moss, record(2, 2), stub(oak)])).toEqual(refused(message));
    });

    test('a blanket record, an invented erasure, and an event that was put back: a name that is no stub', async () => {
      expect(await root([stub(fern), moss, oak, record(4, 0, 2)])).toEqual(
        refused(`line 4 names line 3 as erased, which is not: ${AGAIN}`),
      );
    });

    test('a record that was erased, also with a new record of both', async () => {
      const events = [stub(fern), stub(record(2, 0)), record(3, 0, 1)];
      expect(await root(events)).toEqual(refused('line 2 is the stub of a record'));
    });

    test('a line marked as erased that is also its own record', async () => {
      const own = { ...line(record(2, 0)), erased: eventEntry(moss) };
      expect(await root([fern, own])).toEqual(refused('line 2 is not an event of this service'));
    });

    test.each<[string, Partial<CloudEvent> | { data: object }]>([
      ['entry', { erased: '00'.repeat(32) }],
      ['ID', { id: idOf(1) }],
      ['stream of a plant', { subject: `plant-alice/erased-${stub(fern).id}` }],
      ['hash', { data: { sha256: digestOf(moss).sha256, type: 'PlantCreated' } }],
      ['further data', { data: { ...digestOf(fern), user: 'alice' } }],
    ])('a stub with another %s', async (_, changed) => {
      const altered = { ...line(stub(fern)), ...changed };
      expect(await root([altered, record(2, 0)])).toEqual(refused('line 1 is not an event of this service'));
    });

    test.each([
      { erased: [] },
      { erased: [1, 0] },
      { erased: [-1, 0] },
      { erased: ['0'] },
      { erased: [0], by: 'dana' },
      { erased: [2] },
      {},
    ])('a false record: %j', async (data) => {
      expect(await root([stub(fern), moss, recordOf(data, 3)])).toEqual(
        refused('line 3 is a false record: '),
      );
    });

    test('events without the line that says where they end, unless SIZE says it', async () => {
      const input = `${JSON.stringify(line(fern))}\n`;
      for (const brokenOff of ['', input])
        expect(await runScript(brokenOff)).toEqual(refused('the input has broken off: its last line'));
      expect(await runScript(input, '1')).toMatchObject({ code: 0, stdout: `${head([fern])}\n` });
    });

    test('what is no line of an event, and says what it got', async () => {
      const error = '{"error":40102,"message":"The token has expired."}';
      expect(await root([error])).toEqual(
        refused(`line 1 is not an event of this service, but: '${error}\\n'\n`),
      );
      expect(await root([fern], '7')).toEqual(refused('the input has 1 events, fewer than 7\n'));
      expect(await root([fern], '')).toEqual(
        refused("SIZE must be a number of events, such as 7, but is ''", 2),
      );
    });
  });

  test('prints the root of the test vectors of the specification', async () => {
    const page = readFileSync(join(ROOT, 'packages/transparency-log/SPECIFICATION.md'), 'utf8');
    const [vector, stubbed] = [...page.matchAll(/^```json\n(.*?)^```$/gms)].map(([, json = '']) =>
      JSON.parse(json),
    );
    const naming = recordOf({ erased: [0] }, 2);
    const [, expected] = /root `([\da-f]{64})`/.exec(page) ?? [];
    expect((await root([stubbed.line, naming])).stdout).toBe(`2:${expected}\n`);
    expect((await root([vector.line])).stdout).toBe(`1:${vector.leaf}\n`);
  });
});
