import { closeSync, fstatSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';

/** The errors of a sync that has failed: https://man7.org/linux/man-pages/man2/fsync.2.html */
const FAILURES = ['EIO', 'ENOSPC', 'EDQUOT'];

/** Makes a file's content, or a directory's entries, survive a power cut, if the file system syncs directories. */
export function fsyncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } catch (error) {
    if (!fstatSync(fd).isDirectory()) throw error;
    throwFailure(error);
  } finally {
    closeSync(fd);
  }
}

/** Makes a directory's entries survive a power cut, if the file system does, without blocking the thread. */
export async function syncDirectory(directory: string): Promise<void> {
  await using handle = await open(directory, 'r');
  await handle.sync().catch(throwFailure);
}

/** File systems that cannot sync a directory have many errors for it. SQLite ignores all errors here. */
function throwFailure(error: unknown): void {
  if (FAILURES.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
}
