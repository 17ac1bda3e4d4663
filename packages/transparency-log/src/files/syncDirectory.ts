import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';

/** Makes the entries of a directory survive a power cut. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } catch (error) {
    throwUnlessUnsupported(error);
  } finally {
    await handle.close();
  }
}

export function syncDirectorySync(directory: string): void {
  const fd = openSync(directory, 'r');
  try {
    fsyncSync(fd);
  } catch (error) {
    throwUnlessUnsupported(error);
  } finally {
    closeSync(fd);
  }
}

/** Some file systems cannot sync a directory. */
function throwUnlessUnsupported(error: unknown): void {
  if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
}
