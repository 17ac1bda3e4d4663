import { statSync } from 'node:fs';

/** The device and inode of a file, which differ after it was replaced; undefined if it does not exist. */
export function fileIdentity(file: string): string | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}
