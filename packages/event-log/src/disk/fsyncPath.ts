import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Makes a file's content, or a directory's entries, survive a power cut. */
export function fsyncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } catch (error) {
    if (!isUnsupported(error)) throw error;
  } finally {
    closeSync(fd);
  }
}

/** Some file systems cannot sync a directory. */
function isUnsupported(error: unknown): boolean {
  return ['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '');
}
