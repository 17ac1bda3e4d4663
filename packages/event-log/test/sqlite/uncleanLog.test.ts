import type { ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { dirWith } from '@event-sourced/testing/stores';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startCheck, UncleanLog } from '../../src/sqlite/uncleanLog.ts';

/** An open log with a write-ahead log, and a check of it. */
function unclean(start?: typeof startCheck) {
  const file = join(dirWith(3), 'log.db');
  const db = new DatabaseSync(file);
  db.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE more (a)');
  const log = new UncleanLog(file, start);
  db.exec('INSERT INTO more VALUES (1)');
  onTestFinished(() => {
    log.close();
    db.close();
  });
  const canRestartWal = (): boolean => db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
  return { log, canRestartWal };
}

/** A process whose results the test emits. */
const fakeProcess = (): ChildProcess =>
  Object.assign(new EventEmitter(), { kill: () => true }) as ChildProcess;

test('a passed check of a log that was not closed releases its write-ahead log', async () => {
  const { log, canRestartWal } = unclean();
  await log.checked;
  expect(canRestartWal()).toBe(true);
});

test('a result that arrives after the log was closed is no result', async () => {
  for (const result of [{ finding: null }, { finding: 'damage' }, { error: 'an error' }]) {
    const process = fakeProcess();
    const { log } = unclean(() => process);
    const ended = vi.fn();
    log.checked.then(ended, ended);
    log.close();
    process.emit('message', result);
    process.emit('close', null, 'SIGKILL');
    await new Promise(setImmediate);
    expect(ended).not.toHaveBeenCalled();
  }
});

test('damage keeps the write-ahead log, so that the next start checks again', async () => {
  const process = fakeProcess();
  const { log, canRestartWal } = unclean(() => process);
  process.emit('message', { finding: 'damage' });
  process.emit('close', null, 'SIGKILL');
  await expect(log.checked).rejects.toThrow('the log is damaged: damage');
  expect(canRestartWal()).toBe(false);
});

test('a check whose process is killed says so, and releases the write-ahead log', async () => {
  const { log, canRestartWal } = unclean((file) => {
    const process = startCheck(file);
    process.kill('SIGKILL');
    return process;
  });
  expect(canRestartWal()).toBe(false);
  await expect(log.checked).rejects.toThrow('its process was ended by SIGKILL');
  expect(canRestartWal()).toBe(true);
});
