import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fsyncPath, fsyncPathAsync } from './fsyncPath.ts';

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

/** The same, while the event loop goes on. Not for two callers at once, who would share the draft. */
export async function replaceFileAsync(file: string, content: string): Promise<void> {
  const draft = `${file}.draft`;
  const handle = await open(draft, 'w', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  await fsyncPathAsync(dirname(file));
}
