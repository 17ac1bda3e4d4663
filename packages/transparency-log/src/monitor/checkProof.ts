import { describeEntry } from '../entries/entry.ts';
import { readStateFile } from '../files/stateFile.ts';
import { formatTreeHead, parseTreeHead, type TreeHead } from '../merkle/treeHead.ts';
import { openCheckpoint } from '../notes/checkpoint.ts';
import { decodeUtf8 } from '../notes/encoding.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { isInclusionProof, openConsistencyProof, openInclusionProof } from '../notes/proof.ts';
import { MAX_NOTE_BYTES, parseVerifierKey, type VerifierKey } from '../notes/signedNote.ts';

/** The options of the command, as text. `expect` is SIZE:ROOT, or a file with a checkpoint. */
export type CheckProofOptions = { key: string; expect?: string };

/** The largest proof has an entry of 64 KiB in Base64, and a note. */
const MAX_PROOF_BYTES = 2 * 1024 * 1024;

/** What a proof proves, in a sentence. @throws NotVerified; Error if the file of `expect` cannot be read */
export async function checkProof(
  input: AsyncIterable<Buffer>,
  { key, expect }: CheckProofOptions,
): Promise<string> {
  const verifierKey = parseVerifierKey(key);
  const expected = expect === undefined ? undefined : await parseExpected(expect, verifierKey);
  const proof = await readText(input);
  const check = isInclusionProof(proof) ? checkInclusion : checkConsistency;
  return check(proof, verifierKey, expected);
}

/** Reads the file of --expect, which is to have a checkpoint, and verifies nothing. @throws Error */
export async function readCheckpointFile(file: string): Promise<string> {
  try {
    return await readStateFile(file, MAX_NOTE_BYTES, 'a checkpoint');
  } catch (error) {
    throw new Error(`cannot read the file of --expect: ${(error as Error).message}`, { cause: error });
  }
}

async function parseExpected(text: string, key: VerifierKey): Promise<TreeHead> {
  return parseTreeHead(text) ?? openCheckpoint(await readCheckpointFile(text), key);
}

async function checkInclusion(proof: string, key: VerifierKey, expected?: TreeHead): Promise<string> {
  const { index, entry, checkpoint } = await openInclusionProof(proof, key);
  const head = formatTreeHead(checkpoint);
  if (expected && formatTreeHead(expected) !== head)
    throw new NotVerified(`the proof is for ${head}, not for the expected ${formatTreeHead(expected)}`);
  return `${describeEntry(entry)} is number ${index + 1} of the log ${checkpoint.origin} ${head}`;
}

async function checkConsistency(proof: string, key: VerifierKey, expected?: TreeHead): Promise<string> {
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
