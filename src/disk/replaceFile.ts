import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { fsyncPath } from './fsyncPath.ts';

/** Writes a file durably: after a power cut it has either its old content or this one. */
export function replaceFile(file: string, content: Buffer): void {
  const draft = `${file}.draft`;
  const fd = openSync(draft, 'w', 0o600);
  try {
    writeSync(fd, content);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(draft, file);
  fsyncPath(dirname(file));
}
