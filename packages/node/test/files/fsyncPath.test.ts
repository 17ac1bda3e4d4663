import fs, { writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test, vi } from 'vitest';
import { fsyncPath, syncDirectory } from '../../src/files/fsyncPath.ts';

/** Lets every sync fail with this error code, until the end of the test. */
async function failWith(code: string): Promise<void> {
  const error = Object.assign(new Error(code), { code });
  const fsyncSync = vi.spyOn(fs, 'fsyncSync').mockImplementation(() => {
    throw error;
  });
  await using handle = await open(tempDir(), 'r');
  const sync = vi.spyOn(Object.getPrototypeOf(handle), 'sync').mockRejectedValue(error);
  syncBuiltinESMExports();
  onTestFinished(() => {
    fsyncSync.mockRestore();
    sync.mockRestore();
    syncBuiltinESMExports();
  });
}

test.each(['EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EPERM', 'EACCES', 'EBADF', 'EISDIR', 'EROFS'])(
  'a directory that cannot be synced (%s) is used; a file is not',
  async (code) => {
    const dir = tempDir();
    const file = join(dir, 'file');
    writeFileSync(file, '');
    await failWith(code);
    fsyncPath(dir);
    await syncDirectory(dir);
    expect(() => fsyncPath(file)).toThrow(code);
  },
);

test.each(['EIO', 'ENOSPC', 'EDQUOT'])('a sync of a directory that fails (%s) is an error', async (code) => {
  const dir = tempDir();
  await failWith(code);
  expect(() => fsyncPath(dir)).toThrow(code);
  await expect(syncDirectory(dir)).rejects.toThrow(code);
});
