import { copyFileSync, cpSync, readFileSync, renameSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { dirWith, openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type EventStore,
  LogDamaged,
  NO_STREAM,
  StoreUnavailable,
} from '../../packages/event-log/src/eventStore.ts';
import { UnusableLog } from '../../packages/event-log/src/sqlite/file.ts';
import { openSqliteStore } from '../../packages/event-log/src/sqlite/store.ts';
import { event, everything } from '../../packages/event-log/src/testing/contract.ts';
import { damageFirstRows, damagePage } from '../support/damage.ts';

/** A store with what it reports; the caller may have made it unusable, so closing it may fail. */
async function openReporting(dir: string) {
  const reports = { damage: [] as Error[], fatal: [] as Error[] };
  const store = await openSqliteStore({
    file: join(dir, 'log.db'),
    now: () => new Date(),
    onDamage: (error) => reports.damage.push(error),
    onFatal: (error) => reports.fatal.push(error),
  });
  onTestFinished(() => store.close());
  return { file: join(dir, 'log.db'), store, reports };
}

const append = ({ store }: { store: EventStore }, id: string) =>
  store.append(`plant-alice/${id}`, event(id), NO_STREAM);

describe('a log that turns out to be damaged', () => {
  test('found while it is written accepts no more appends, and reports the damage once', async () => {
    const dir = dirWith(3);
    damagePage(join(dir, 'log.db'), 'sqlite_autoindex_events_2');
    const opened = await openReporting(dir);
    expect(opened.store.appendsRefused).toBeUndefined();
    await expect(append(opened, 'a')).rejects.toThrow(StoreUnavailable);
    const damage = new LogDamaged('database disk image is malformed');
    expect(damage.message).toBe('the log is damaged: database disk image is malformed');
    await expect.poll(() => opened.store.appendsRefused).toBe(damage.message);
    await expect(async () => append(opened, 'b')).rejects.toThrow(LogDamaged);
    expect(opened.reports).toEqual({ damage: [damage], fatal: [] });
    expect(await opened.store.readEvent(3n)).toMatchObject({ position: 3n });
  });

  test('found while it is read accepts no more appends', async () => {
    const dir = dirWith(3);
    damagePage(join(dir, 'log.db'), 'sqlite_autoindex_events_2');
    const opened = await openReporting(dir);
    await expect(opened.store.readStream('plant-u1/1', 1)).rejects.toThrow(LogDamaged);
    expect(opened.store.appendsRefused).toBe(opened.reports.damage[0]?.message);
    expect(opened.reports.damage).toHaveLength(1);
    await expect(async () => append(opened, 'a')).rejects.toThrow(LogDamaged);
  });
});

async function appendMore(log: EventStore, events: number): Promise<void> {
  const append = (i: number) => log.append(`plant-bob/${i}`, event(`${i}`), NO_STREAM);
  await Promise.all(Array.from({ length: events }, (_, i) => append(i)));
}

/** A copy of the files of a log, by default of three events, that is open with more events, as after a crash. */
async function crashed(events: number, { closed = 3 } = {}) {
  const [from, dir] = [dirWith(closed), tempDir()];
  const old = join(tempDir(), 'old.db');
  copyFileSync(join(from, 'log.db'), old);
  await appendMore(await openIn(from), events);
  cpSync(from, dir, { recursive: true });
  return { dir, file: join(dir, 'log.db'), old };
}

/** The message with which a log is not opened, and its files are not changed. */
async function refusal(dir: string): Promise<string> {
  const contents = () => ['log.db', 'log.db-wal'].map((name) => readFileSync(join(dir, name), 'base64'));
  const before = contents();
  const outcome = await openIn(dir).catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(UnusableLog);
  expect(contents()).toEqual(before);
  return (outcome as Error).message;
}

const REMOVE_WAL = /^[^\n]+ remove log\.db-wal and log\.db-shm$/;

describe('a log that was not closed', () => {
  test('is opened with all its events', async () => {
    const { dir } = await crashed(50);
    expect(await everything(await openIn(dir))).toHaveLength(53);
  });

  test('is opened without an incomplete transaction', async () => {
    const { dir, file } = await crashed(1);
    truncateSync(`${file}-wal`, 1_000);
    expect(await everything(await openIn(dir))).toHaveLength(3);
  });

  test('is not opened if a page that the start reads is damaged', async () => {
    const { dir, file } = await crashed(50);
    damagePage(file, 'log');
    expect(await refusal(dir)).toMatch(/log\.db: .*malformed/);
  });

  test('accepts no more appends once other damage is found, also after the next start', async () => {
    const { dir, file } = await crashed(1, { closed: 2_000 });
    damageFirstRows(file, 'events');
    for (let i = 0; i < 2; i++) {
      const { store, reports } = await openReporting(dir);
      await expect.poll(() => store.appendsRefused).toMatch(/^the log is damaged: .*page/);
      expect(reports.damage).toHaveLength(1);
      await expect(async () => store.append('plant-alice/a', event('a'), NO_STREAM)).rejects.toThrow(
        LogDamaged,
      );
      expect(await store.readEvent(2_001n)).toMatchObject({ position: 2_001n });
      await store.close();
    }
  });

  test('is checked once while it is used', async () => {
    const { dir } = await crashed(50);
    const checks: Promise<void>[] = [];
    const open = () =>
      openSqliteStore({ file: join(dir, 'log.db'), onCheck: (checked) => checks.push(checked) });
    const first = await open();
    await first.append('plant-alice/a', event('a'), NO_STREAM);
    await Promise.all(checks);
    await first.close();
    const second = await open();
    expect(await everything(second)).toHaveLength(54);
    await second.close();
    expect(checks).toHaveLength(1);
  });

  test('is not opened if log.db is an older backup', async () => {
    const { dir, file, old } = await crashed(50);
    using db = new DatabaseSync(old);
    const backup = join(tempDir(), 'backup.db');
    db.prepare('VACUUM INTO ?').run(backup);
    copyFileSync(backup, file);
    expect(await refusal(dir)).toMatch(REMOVE_WAL);
    for (const part of ['-wal', '-shm']) rmSync(`${file}${part}`);
    expect(await everything(await openIn(dir))).toHaveLength(3);
  });

  test('is not opened if log.db is an older copy', async () => {
    const [from, dir] = [dirWith(3), tempDir()];
    const old = join(tempDir(), 'old.db');
    copyFileSync(join(from, 'log.db'), old);
    const more = await openIn(from);
    await appendMore(more, 500);
    await more.close(); // moves them into log.db
    const again = await openIn(from);
    // The last in every index: on pages that the older file does not have, so its own pages are consistent.
    const last = { ...event('last'), id: 'ffffffff-ffff-4fff-bfff-ffffffffffff' };
    await again.append('plant-zoe/1', last, NO_STREAM);
    cpSync(from, dir, { recursive: true });
    copyFileSync(old, join(dir, 'log.db'));
    expect(await refusal(dir)).toMatch(REMOVE_WAL);
  });
});

test.for<[what: string, change: (file: string) => void]>([
  ['deleted', (file) => rmSync(file)],
  ['replaced', (file) => void [copyFileSync(file, `${file}.new`), renameSync(`${file}.new`, file)]],
  ['without its write-ahead log', (file) => rmSync(`${file}-wal`)],
])('an append fails, and it is fatal, if the file of an open log is %s', async ([, change]) => {
  const opened = await openReporting(dirWith(3));
  await append(opened, 'before');
  change(opened.file);
  await expect(append(opened, 'after')).rejects.toThrow(StoreUnavailable);
  expect(opened.reports.fatal.map(({ message }) => message)).toEqual([
    expect.stringMatching(/log\.db(-wal)? was deleted or replaced while the service was running$/),
  ]);
});
