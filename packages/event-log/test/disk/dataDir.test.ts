import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { asNobody } from '@event-sourced/testing/asNobody';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test } from 'vitest';
import { createDataDir } from '../../src/disk/dataDir.ts';

test('a data directory is created, for its owner only, in a directory that cannot be read', () => {
  const parent = tempDir();
  chmodSync(parent, 0o333);
  onTestFinished(() => chmodSync(parent, 0o700));
  const dir = join(parent, 'data');
  asNobody(() => createDataDir(dir));
  expect(statSync(dir).mode & 0o777).toBe(0o700);
});
