import { printable } from '@event-sourced/node/cli';
import { readAtMost } from '@event-sourced/node/http';
import {
  decodeTextFile,
  formatTreeHead,
  isInclusionProof,
  MAX_PROOF_BYTES,
  NotVerified,
  openCheckpoint,
  openConsistencyProof,
  parseLogKey,
  parseTreeHead,
  proofCheckpoint,
  type TreeHead,
  type VerifierKey,
} from '@event-sourced/tlog';
import { countCosignatures, openPolicy, type Policy, type PolicyOptions } from '@event-sourced/tlog/witness';
import { describeEvent, openReceipt, type Receipt } from '@event-sourced/transparency-log/digest';
import { readCheckpointFile, readStateFile } from '@event-sourced/transparency-log/files';

/** The options of the command, as text. `expect` is SIZE:ROOT, or a file with a checkpoint; `record` is a file. */
type CheckProofOptions = PolicyOptions & { key: string; origin?: string; expect?: string; record?: string };

/**
 * Verifies a proof; returns what it proves, as a line that is safe to print. `print` gets the witnesses that are not
 * counted. @throws NotVerified with a line that is safe to print; Error if an option is invalid
 */
export async function checkProof(
  input: AsyncIterable<Buffer>,
  { expect, record, ...options }: CheckProofOptions,
  print: (line: string) => void,
): Promise<string> {
  const verifierKey = parseLogKey(options);
  const policy = openPolicy(options, print);
  try {
    const expected = expect === undefined ? undefined : await parseExpected(expect, verifierKey);
    const bytes = await readAtMost(MAX_PROOF_BYTES, input);
    if (!bytes) throw new NotVerified('not a proof: it is too large');
    const proof = decodeTextFile(bytes);
    const proven = isInclusionProof(proof)
      ? await checkInclusion(proof, verifierKey, { expected, record })
      : await checkConsistency(proof, verifierKey, { expected, record });
    return printable(policy ? `${proven}; ${checkCosignatures(proofCheckpoint(proof), policy)}` : proven);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new NotVerified(printable(error.message));
  }
}

/** Describes which witnesses have cosigned, and when. @throws NotVerified if they do not reach the quorum */
function checkCosignatures(note: string, policy: Policy): string {
  const { cosignatures } = countCosignatures(note, policy, new Date());
  const signed = cosignatures.map(
    ({ key, time }) => `${key.name} at ${new Date(time * 1_000).toISOString()}`,
  );
  return `cosigned by ${signed.length} of ${policy.witnesses.length} witnesses: ${signed.join(', ')}`;
}

async function parseExpected(text: string, key: VerifierKey): Promise<TreeHead> {
  return parseTreeHead(text) ?? openCheckpoint(await readCheckpointFile(text), key);
}

type Options = { expected: TreeHead | undefined; record: string | undefined };

async function checkInclusion(
  proof: string,
  key: VerifierKey,
  { expected, record }: Options,
): Promise<string> {
  const receipt = await openReceipt(proof, key);
  const { index, event, checkpoint, names } = receipt;
  const head = formatTreeHead(checkpoint);
  if (expected && formatTreeHead(expected) !== head)
    throw new NotVerified(`the proof is for ${head}, not for the expected ${formatTreeHead(expected)}`);
  const log = `the log ${checkpoint.origin} ${head}`;
  if (names && record !== undefined)
    throw new NotVerified('--record requires the receipt of an event; this is that of a record');
  if (names) return `record ${index} names ${describeNames(names)} as erased, in ${log}`;
  const proven = `${describeEvent(event)} is at index ${index} of ${log}`;
  return record === undefined ? proven : `${proven}; ${await checkErased(receipt, record, key)}`;
}

const describeNames = (names: readonly number[]): string =>
  `${names.length} event${names.length === 1 ? '' : 's'} (${names.join(', ')})`;

/** Whether a record, whose receipt is in a file, names an event. @throws NotVerified */
async function checkErased({ index }: Receipt, file: string, key: VerifierKey): Promise<string> {
  const text = await readStateFile(file, MAX_PROOF_BYTES, 'a proof').catch((error: Error) => {
    throw new NotVerified(`cannot use ${file} of --record: ${error.message}`);
  });
  const record = await openReceipt(text, key);
  if (!record.names) throw new NotVerified(`${file} is not the receipt of a record of erased events`);
  const does = record.names.includes(index) ? 'names it' : 'does not name it';
  return `record ${record.index} ${does} as erased`;
}

async function checkConsistency(
  proof: string,
  key: VerifierKey,
  { expected, record }: Options,
): Promise<string> {
  if (record !== undefined) throw new NotVerified('--record requires the receipt of an event');
  if (!expected) throw new NotVerified('not an inclusion proof; a consistency proof requires --expect');
  const later = await openConsistencyProof(proof, expected, key);
  return `the log ${later.origin} ${formatTreeHead(expected)} is the beginning of ${formatTreeHead(later)}`;
}
