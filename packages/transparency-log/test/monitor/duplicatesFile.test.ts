import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { readDuplicates, writeDuplicates } from '../../src/monitor/duplicatesFile.ts';
import { NEW_STATE, type State } from '../../src/monitor/state.ts';
import { check } from './checking.ts';
import { entries, entryOf, FakeLog } from './fakeLog.ts';

/** Checks as many times as there are logs, with the state and the file of the time before. */
async function checkAll(logs: readonly FakeLog[], file: string, between = (_file: string): void => {}) {
  let state: State = NEW_STATE;
  let last: Awaited<ReturnType<typeof check>> | undefined;
  for (const log of logs) {
    const notices: string[] = [];
    last = await check(log, state, {
      readDuplicates: (head) => readDuplicates(file, head, (line) => notices.push(line)),
    });
    last.notices.push(...notices);
    const { found, error } = last;
    if (!found) throw error;
    state = found.state;
    if (found.duplicates) await writeDuplicates(file, found.checkpoint, found.duplicates);
    if (log !== logs.at(-1)) between(file);
  }
  return last as NonNullable<typeof last>;
}

const newFile = (): string => join(tempDir(), 'state.duplicates');
const before = entries(300);
const sameId = entryOf(303).replace('0000012f-', '00000001-');
const sameRevision = (before[1] as string).replace('00000002-', '00000999-');
const logs = [before, [...before, ...entries(302).slice(300), sameId, sameRevision]].map(
  (all) => new FakeLog(all),
);

describe('an event that repeats one of an earlier run', () => {
  test('is found by what was kept in a file', async () => {
    const [one, two] = logs as [FakeLog, FakeLog];
    const { problems, notices, found } = await checkAll([one, two], newFile());
    expect(notices).toEqual([]);
    expect(problems.filter((line) => !line.includes('long before'))).toEqual([
      expect.stringMatching(/^event 303, .*: its ID is also that of event 1$/),
      expect.stringMatching(/^event 304, .*: revision 0 of its stream is also event 2$/),
    ]);
    expect(found?.added).toBe(4);
  });

  test.each<[string, (file: string) => void, RegExp]>([
    ['is missing', (file) => writeFileSync(file, ''), /it is not of the last checkpoint$/],
    [
      'is of another checkpoint',
      (file) => writeFileSync(file, readFileSync(file, 'latin1').replace(' 300:', ' 299:'), 'latin1'),
      /it is not of the last checkpoint$/,
    ],
    ['is cut off', (file) => truncateSync(file, statSync(file).size - 9), /unexpected end of file$/],
    ['is too large', (file) => truncateSync(file, 2 ** 27), /it does not exist$/],
  ])('is found if the file %s: it is rebuilt from the entries', async (_, damage, reason) => {
    const [one, two] = logs as [FakeLog, FakeLog];
    const file = newFile();
    const { problems, notices } = await checkAll([one, two], file, damage);
    expect(notices).toEqual([expect.stringMatching(reason)]);
    expect(notices[0]).toContain(`rebuilding ${file} from all events: `);
    expect(problems.filter((line) => !line.includes('long before'))).toHaveLength(2);
  });

  test('is reported once, and not if it only has the same bits: candidates are compared with the entries', async () => {
    const [one, two] = logs as [FakeLog, FakeLog];
    const file = newFile();
    const more = new FakeLog([...two.log, Buffer.from(entryOf(305))]);
    expect((await checkAll([one, two, more], file)).problems).toEqual([]);
    const full = async (name: string): Promise<void> => {
      const content = await readDuplicates(name, more.head(), () => {});
      content?.words.fill(0xffffffff);
      await writeDuplicates(name, more.head(), content as NonNullable<typeof content>);
    };
    await full(file);
    const last = new FakeLog([...more.log, Buffer.from(entryOf(306))]);
    const { found } = await check(more);
    const { problems } = await check(last, found?.state, {
      readDuplicates: (head) => readDuplicates(file, head, () => {}),
    });
    expect(problems).toEqual([]);
    expect(last.read).toContain('entries/0');
  });

  test('costs nothing if there are no new events', async () => {
    const [one] = logs as [FakeLog];
    const { found } = await check(one);
    const readDuplicates = () => Promise.reject(new Error('not needed'));
    expect((await check(one, found?.state, { readDuplicates })).error).toBeUndefined();
  });
});
