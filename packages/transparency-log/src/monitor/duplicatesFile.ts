import { readFile, stat } from 'node:fs/promises';
import { endianness } from 'node:os';
import { promisify } from 'node:util';
import { deflate, inflate } from 'node:zlib';
import { replaceFile } from '../files/stateFile.ts';
import { formatTreeHead, type TreeHead } from '../merkle/treeHead.ts';
import { DUPLICATES_WORDS, Duplicates } from './duplicates.ts';

// What is known of earlier events, compressed, after a line that names the checkpoint up to which they were taken.

const FORMAT = `transparency-log duplicates 2 ${endianness()}`;
const WORDS_BYTES = DUPLICATES_WORDS * Uint32Array.BYTES_PER_ELEMENT;
/** What cannot be compressed becomes a little larger. */
const MAX_BYTES = WORDS_BYTES + 1024 * 1024;

const firstLine = (head: TreeHead): Buffer => Buffer.from(`${FORMAT} ${formatTreeHead(head)}\n`);

/** What is known of the events up to a checkpoint; undefined, and a notice, if the file does not have it. */
export async function readDuplicates(
  file: string,
  head: TreeHead,
  onNotice: (line: string) => void,
): Promise<Duplicates | undefined> {
  try {
    return await read(file, head);
  } catch (error) {
    onNotice(`rebuilding ${file} from all events: ${(error as Error).message}`);
    return undefined;
  }
}

async function read(file: string, head: TreeHead): Promise<Duplicates> {
  const stats = await stat(file).catch(() => undefined);
  if (!stats?.isFile() || stats.size > MAX_BYTES) throw new Error('it does not exist');
  const content = await readFile(file);
  const line = firstLine(head);
  if (!content.subarray(0, line.length).equals(line)) throw new Error('it is not of the last checkpoint');
  const options = { maxOutputLength: WORDS_BYTES, chunkSize: WORDS_BYTES };
  const bytes = await promisify<Buffer, object, Buffer>(inflate)(content.subarray(line.length), options);
  return new Duplicates(new Uint32Array(bytes.buffer, bytes.byteOffset, DUPLICATES_WORDS));
}

/** Replaces the file durably and atomically; it has at most 65 MiB. */
export async function writeDuplicates(file: string, head: TreeHead, { words }: Duplicates): Promise<void> {
  const bytes = Buffer.from(words.buffer, words.byteOffset, WORDS_BYTES);
  const compressed = await promisify<Buffer, object, Buffer>(deflate)(bytes, { level: 1 });
  await replaceFile(file, Buffer.concat([firstLine(head), compressed]));
}
