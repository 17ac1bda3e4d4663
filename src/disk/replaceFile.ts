import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fsyncPathAsync } from './fsyncPath.ts';

/**
 * Writes a file durably: after a power cut it has either its old content or this one. Not for two callers at
 * once, who would share the draft.
 */
export async function replaceFile(file: string, content: string | Buffer): Promise<void> {
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
