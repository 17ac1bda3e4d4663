import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';

/** Makes a file's content, or a directory's entries, survive a power cut. */
export function fsyncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } catch (error) {
    throwUnlessUnsupported(error);
  } finally {
    closeSync(fd);
  }
}

/** Makes a directory's entries survive a power cut, without blocking the thread. */
export async function syncDirectory(directory: string): Promise<void> {
  await using handle = await open(directory, 'r');
  await handle.sync().catch(throwUnlessUnsupported);
}

/** Some file systems cannot sync a directory. */
function throwUnlessUnsupported(error: unknown): void {
  if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
}
