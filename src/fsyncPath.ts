import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Puts on the disk what a file holds, or the names in a directory: without it a power cut could take them. */
export function fsyncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
