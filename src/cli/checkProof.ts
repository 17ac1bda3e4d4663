import { addAbortSignal } from 'node:stream';
import { describeEntry } from '../audit/entry.ts';
import { formatTreeHead, parseTreeHead, type TreeHead } from '../merkle/treeHead.ts';
import { openCheckpoint } from '../transparency/checkpoint.ts';
import { openConsistencyProof } from '../transparency/consistencyProof.ts';
import { decodeUtf8 } from '../transparency/encoding.ts';
import { isInclusionProof, openInclusionProof } from '../transparency/inclusionProof.ts';
import { NotVerified } from '../transparency/notVerified.ts';
import { parseVerifierKey, type VerifierKey } from '../transparency/signedNote.ts';
import { readCheckpointFile } from './checkpointFile.ts';
import { type Context, write } from './context.ts';
import { printable } from './printable.ts';

type Options = { key: string; expect?: string };

/** The largest proof has an entry of 64 KiB in Base64, and a note. */
const MAX_PROOF_BYTES = 2 * 1024 * 1024;

/** Reads a proof from standard input, and prints what it proves. @throws NotVerified */
export async function checkProofCommand({ key, expect }: Options, context: Context): Promise<void> {
  const { input, output, signal } = context;
  const verifierKey = parseVerifierKey(key);
  const expected = expect === undefined ? undefined : await parseExpected(expect, verifierKey);
  const proof = await readText(addAbortSignal(signal, input));
  const check = isInclusionProof(proof) ? checkInclusion : checkConsistency;
  await write(output, `${printable(await check(proof, verifierKey, expected))}\n`);
}

/** The size and root that --expect names: SIZE:ROOT, or a file with a checkpoint, which must be signed. */
async function parseExpected(text: string, key: VerifierKey): Promise<TreeHead> {
  return parseTreeHead(text) ?? openCheckpoint(readCheckpointFile(text, '--expect'), key);
}

async function checkInclusion(
  proof: string,
  key: VerifierKey,
  expected: TreeHead | undefined,
): Promise<string> {
  const { index, entry, checkpoint } = await openInclusionProof(proof, key);
  const head = formatTreeHead(checkpoint);
  if (expected && formatTreeHead(expected) !== head)
    throw new NotVerified(`the proof is for ${head}, not for the expected ${formatTreeHead(expected)}`);
  return `${describeEntry(entry)} is number ${index + 1} of the log ${checkpoint.origin} ${head}`;
}

async function checkConsistency(
  proof: string,
  key: VerifierKey,
  expected: TreeHead | undefined,
): Promise<string> {
  if (!expected) throw new NotVerified('not an inclusion proof; a consistency proof requires --expect');
  const later = await openConsistencyProof(proof, expected, key);
  return `the log ${later.origin} ${formatTreeHead(expected)} is the beginning of ${formatTreeHead(later)}`;
}

async function readText(input: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_PROOF_BYTES) throw new NotVerified('not a proof: it is too large');
  }
  return decodeUtf8(Buffer.concat(chunks));
}
