import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test } from 'vitest';
import { fileIdentity } from '../../../node/src/files/fileIdentity.ts';
import { SQLITE } from '../../../node/src/files/sqliteCode.ts';
import { WalThread } from '../../src/disk/walThread.ts';

test('a WAL checkpoint that fails resolves with the error and its SQLite code', async () => {
  const file = join(tempDir(), 'log.db');
  writeFileSync(file, 'no database');
  const thread = new WalThread();
  onTestFinished(() => thread.close());
  const identity = fileIdentity(file);
  expect(await thread.walCheckpoint({ file, identity })).toEqual({
    errcode: SQLITE.NOTADB,
    message: 'file is not a database',
  });
  expect(await thread.walCheckpoint({ file, identity: 'another' })).toEqual({
    errcode: undefined,
    message: `${file} was deleted or replaced`,
  });
});
