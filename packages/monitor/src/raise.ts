import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { printable } from '@event-sourced/node/cli';
import { toBase64 } from '@event-sourced/tlog';
import { replaceFile, replacePath } from '@event-sourced/transparency-log/files';
import type { Alarm, Evidence } from './alarm.ts';

/** If evidence cannot be written, it is printed up to this size: checkpoints and proofs are smaller. */
const MAX_PRINTED_BYTES = 128 * 1024;

/** Writes the evidence of an alarm to a new directory; returns the lines to print, with what could not be written. */
export async function raise({ message, evidence }: Alarm, directory: string): Promise<string> {
  const alarm = printable(`ALARM: ${message}`);
  const commands = evidence.flatMap((file) => file.commands ?? []);
  const verify = commands.length > 0 ? ['', 'Verify with the scripts of docs/tools:', ...commands] : [];
  const text = [`${new Date().toISOString()}  ${alarm}`, ...verify, ''].join('\n');
  try {
    await writeDirectory(directory, [{ name: 'alarm.txt', content: Buffer.from(text) }, ...evidence]);
    return `${alarm}; the evidence is in ${printable(directory)}; see docs/alarms.md`;
  } catch (error) {
    const short = evidence.filter(({ content }) => content.length <= MAX_PRINTED_BYTES);
    return [
      `${alarm}; the evidence could not be written: ${printable((error as Error).message)}`,
      ...short.map(({ name, content }) => `${name}, in Base64: ${toBase64(content)}`),
    ].join('\n');
  }
}

/** Creates a directory with files atomically. @throws Error */
async function writeDirectory(directory: string, files: readonly Evidence[]): Promise<void> {
  const draft = `${directory}.draft`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { mode: 0o700 });
  for (const { name, content } of files) await replaceFile(join(draft, name), content);
  await replacePath(draft, directory);
}
