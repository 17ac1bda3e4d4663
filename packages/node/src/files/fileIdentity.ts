import { statSync } from 'node:fs';

/** The device and inode of a file, which change when the file is replaced; undefined if it does not exist. */
export function fileIdentity(file: string): string | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}
