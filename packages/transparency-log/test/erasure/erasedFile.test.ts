import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { erasable } from '@event-sourced/testing/erase';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { type ErasableStore, NO_STREAM, type RecordedEvent } from '../../../event-log/src/eventStore.ts';
import { copyLogFile } from '../../../event-log/src/sqlite/backup.ts';
import { event, everything } from '../../../event-log/src/testing/contract.ts';
import { digestOf, eventEntry, stubOf } from '../../src/digest/eventEntry.ts';
import { ErasedFile } from '../../src/erasure/erasedFile.ts';
import { recordsOf } from '../../src/erasure/eraseStreams.ts';

const now = () => new Date('2026-01-01T00:00:00.000Z');
const { signal } = new AbortController();

/** A data directory whose log is restored by its tests. */
async function logIn(dir = tempDir()) {
  const store = erasable(await openIn(dir));
  const file = new ErasedFile(join(dir, 'erased'), 'plant-');
  return {
    dir,
    store,
    file,
    path: join(dir, 'erased'),
    append: async (user: string, id = 0) => {
      const { position } = await store.append(`plant-${user}/${id}`, event(`plant of ${user}`), NO_STREAM);
      return store.indexOf(position);
    },
    /** Erases events by their indices, and adds them to the file. */
    erase: async (...indices: number[]) => {
      await eraseIn(store, indices);
      await file.update(store);
    },
    backup: async (): Promise<string> => {
      const to = join(tempDir(), 'log.db');
      await copyLogFile(join(dir, 'log.db'), to, signal);
      return to;
    },
    /** Puts a backup in the place of the log, and opens it. */
    restore: async (backup: string) => {
      await store.close();
      copyFileSync(backup, join(dir, 'log.db'));
      return logIn(dir);
    },
  };
}

async function eraseIn(store: ErasableStore, indices: number[]): Promise<void> {
  const events = await everything(store);
  const stubs = indices.map((index) => {
    const erased = events[index] as RecordedEvent;
    return { position: erased.position, ...stubOf(digestOf(erased), 'plant-') };
  });
  await store.erase(stubs, recordsOf(indices, 'plant-', now));
}

const typesIn = async (store: ErasableStore) => (await everything(store)).map(({ type }) => type);
const NOTHING = { events: 0, records: [], others: 0 };

test('a restore brings erased events back; they are erased again, with a record', async () => {
  const log = await logIn();
  for (const user of ['alice', 'bob']) await log.append(user);
  await log.append('alice', 1);
  const entries = (await everything(log.store)).map(eventEntry);
  const backup = await log.backup();
  await log.append('bob', 1);
  await log.erase(0, 2);
  const restored = await log.restore(backup);
  const { store, file } = restored;
  expect(await typesIn(store)).not.toContain('EventErased');
  expect(await file.repeat(store, now)).toEqual({ events: 2, records: [3], others: 0 });
  expect((await everything(store)).map(eventEntry).slice(0, 3)).toEqual(entries);
  expect(await typesIn(store)).toEqual(['EventErased', 'ItemAdded', 'EventErased', 'EventsErased']);
  expect((await everything(store)).at(-1)?.data).toEqual({ erased: [0, 2] });
  expect(await file.repeat(store, now)).toEqual(NOTHING); // a kill before the file has the new record
  await file.update(store);
  expect(await file.repeat(store, now)).toEqual(NOTHING);
  // The same backup once more.
  const again = await restored.restore(backup);
  expect(await again.file.repeat(again.store, now)).toMatchObject({ events: 2, records: [3] });
});

test('the file has no content, and only its owner can read it', async () => {
  const log = await logIn();
  await log.append('alice');
  const [alice] = (await everything(log.store)) as [RecordedEvent];
  await log.erase(0);
  const record = (await everything(log.store)).at(-1) as RecordedEvent;
  expect(readFileSync(log.path, 'utf8')).toBe(
    `${JSON.stringify({ record: [1, eventEntry(record)], erased: [[0, eventEntry(alice)]] })}\n`,
  );
  expect(statSync(log.path).mode & 0o777).toBe(0o600);
});

test('a log that lost nothing is left as it is', async () => {
  const log = await logIn();
  for (const user of ['alice', 'bob']) await log.append(user);
  expect(await log.file.repeat(log.store, now)).toEqual(NOTHING);
  await log.erase(0);
  await log.erase(1);
  const before = await everything(log.store);
  expect(await log.file.repeat(log.store, now)).toEqual(NOTHING);
  expect(await everything(log.store)).toEqual(before);
});

test('an event at the place of an erased one is not erased', async () => {
  const log = await logIn();
  await log.append('bob');
  const backup = await log.backup();
  await log.append('alice');
  await log.erase(1);
  const restored = await log.restore(backup);
  expect(await restored.file.repeat(restored.store, now)).toEqual(NOTHING); // the log has no event there
  await restored.append('carol');
  expect(await restored.file.repeat(restored.store, now)).toEqual({ ...NOTHING, others: 1 });
  expect(await typesIn(restored.store)).toEqual(['ItemAdded', 'ItemAdded']);
  // Both histories are in the file, one event for each.
  await restored.erase(1);
  const third = await restored.restore(backup);
  await third.append('dave');
  await third.append('erin');
  expect(await third.file.repeat(third.store, now)).toEqual({ ...NOTHING, others: 1 });
});

test.each([
  ['a record of erased events', 1],
  ['an event that does not exist', 99],
])('a forged line does not erase %s', async (_, index) => {
  const log = await logIn();
  await log.append('alice');
  await log.erase(0);
  const record = (await everything(log.store)).at(-1) as RecordedEvent;
  const place = [index, eventEntry(record)];
  appendFileSync(log.path, `${JSON.stringify({ record: place.with(0, 50), erased: [place] })}\n`);
  const before = await everything(log.store);
  expect(await log.file.repeat(log.store, now)).toMatchObject({ events: 0, records: [] });
  expect(await everything(log.store)).toEqual(before);
});

test('a record that the file lacks is added, as after a kill or in a copy', async () => {
  const log = await logIn();
  for (const user of ['alice', 'bob', 'carol']) await log.append(user);
  const backup = await log.backup();
  await log.erase(0);
  await eraseIn(log.store, [1]); // killed
  const complete = new ErasedFile(join(log.dir, 'erased'), 'plant-');
  await complete.update(log.store);
  expect(readFileSync(log.path, 'utf8').match(/\n/g)).toHaveLength(2);
  rmSync(log.path); // lost while the service runs
  await eraseIn(log.store, [2]);
  await expect(complete.update(log.store)).rejects.toThrow('ENOENT');
  await complete.update(log.store);
  const { store, file } = await log.restore(backup);
  expect(await file.repeat(store, now)).toEqual({ events: 3, records: [3], others: 0 });
});

test('a line that was cut is replaced', async () => {
  const log = await logIn();
  for (const user of ['alice', 'bob']) await log.append(user);
  const backup = await log.backup();
  await log.erase(0);
  await log.erase(1);
  const content = readFileSync(log.path);
  for (let length = content.length - 1; length > 0; length -= 23) {
    truncateSync(log.path, length);
    const file = new ErasedFile(log.path, 'plant-');
    expect(await file.repeat(log.store, now)).toEqual(NOTHING);
    await file.update(log.store);
    expect(readFileSync(log.path)).toEqual(content);
  }
  const { store, file } = await log.restore(backup);
  expect(await file.repeat(store, now)).toEqual({ events: 2, records: [2], others: 0 });
});

test.each([
  'x\n',
  '\n',
  '[]\n',
  '{"record":[1,"00"],"erased":[]}\n',
  `{"record":[1.5,"${'0'.repeat(64)}"],"erased":[]}\n`,
  `{"record":[1,"${'0'.repeat(64)}"],"erased":[[-1,"${'0'.repeat(64)}"]]}\n`,
  `{"record":[1,"${'0'.repeat(64)}"],"erased":{}}\n`,
])('a file with the line %j is not used', async (line) => {
  const log = await logIn();
  writeFileSync(log.path, line);
  await expect(log.file.repeat(log.store, now)).rejects.toThrow('a line names no erased events');
  await expect(log.file.update(log.store)).rejects.toThrow(`cannot use ${log.path}: a line`);
});

test('a directory is not used', async () => {
  const log = await logIn();
  mkdirSync(log.path);
  await expect(log.file.repeat(log.store, now)).rejects.toThrow('it is not a regular file');
  expect(existsSync(log.path)).toBe(true);
});
