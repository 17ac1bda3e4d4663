import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Makes a file's content, or a directory's entries, survive a power cut. */
export function fsyncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } catch (error) {
    // Some file systems cannot sync a directory.
    if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    closeSync(fd);
  }
}
