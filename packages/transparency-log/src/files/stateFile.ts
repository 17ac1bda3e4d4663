import { open, readFile, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { printable } from '@event-sourced/node/cli';
import { syncDirectory } from '@event-sourced/node/files';
import { decodeTextFile, MAX_NOTE_BYTES } from '@event-sourced/tlog';

/** The text of a file. @throws Error that it is not `what` if the file is too large, or not a regular file */
export async function readStateFile(file: string, maxBytes: number, what: string): Promise<string> {
  const stats = await stat(file);
  if (!stats.isFile() || stats.size > maxBytes) throw new Error(`it is not ${what}`);
  return decodeTextFile(await readFile(file));
}

/** Like `readStateFile`; undefined if the file does not exist. @throws Error */
export async function readIfExists(...file: Parameters<typeof readStateFile>): Promise<string | undefined> {
  try {
    return await readStateFile(...file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The alternative to a file in an option. */
const SIZE_AND_ROOT = 'SIZE:ROOT, a number of events and 64 hexadecimal digits,';

/** Reads the checkpoint file that an option names, without verifying it. @throws Error */
export async function readCheckpointFile(
  file: string,
  option = '--expect',
  otherForm = SIZE_AND_ROOT,
): Promise<string> {
  const cannotRead = ({ message }: Error): never => {
    throw new Error(`cannot read the file of ${option}: ${message}`);
  };
  const text = await readIfExists(file, MAX_NOTE_BYTES, 'a checkpoint').catch(cannotRead);
  if (text !== undefined) return text;
  throw new Error(
    `${option} must be ${otherForm} or a file with a checkpoint; the file ${printable(JSON.stringify(file))} does not exist.`,
  );
}

/** Replaces a file durably and atomically. Concurrent calls for the same file would share the draft. */
export async function replaceFile(file: string, content: string | Uint8Array): Promise<void> {
  const draft = `${file}.draft`;
  const handle = await open(draft, 'w', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await replacePath(draft, file);
}

export async function replacePath(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncDirectory(dirname(to));
}
