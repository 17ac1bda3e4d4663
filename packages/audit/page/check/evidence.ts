import {
  type Checkpoint,
  consistencyProofFromTiles,
  decodeTextFile,
  formatTreeHead,
  isInclusionProof,
  MAX_PROOF_BYTES,
  openCheckpoint,
  parseConsistencyProof,
  type TreeHead,
  tilePath,
  type VerifierKey,
  verifyConsistency,
} from '@event-sourced/tlog';
import { openReceipt, type Receipt } from '@event-sourced/transparency-log/digest';
import type { Api } from '../api.ts';
import { count, counted } from '../text.ts';
import type { Result } from './checkState.ts';
import { failure } from './failures.ts';

/** `newest`: the newest checkpoint, after its signature was verified. */
type Log = { api: Api; newest: () => Promise<Checkpoint> };

/** What a file shows: a signed tree head and, if it is a receipt, an event. */
type Evidence = { head: TreeHead; what: string; receipt?: Receipt };

/** Whether the log still begins with what a receipt or a checkpoint shows. */
export async function checkFile(file: File, key: VerifierKey, log: Log): Promise<Result> {
  let evidence: Evidence;
  try {
    evidence = await open(file, key);
  } catch (error) {
    const result = failure(error, 'file');
    return { ...result, topic: 'file', text: `File ${file.name}: ${result.text}` };
  }
  const { head, what, receipt } = evidence;
  const result = await compare(head, what, log).catch((error) => failure(error, 'key'));
  return receipt ? { ...result, receipt } : result;
}

async function open(file: File, key: VerifierKey): Promise<Evidence> {
  if (file.size > MAX_PROOF_BYTES) throw new Error('It is too large for a proof or a checkpoint.');
  const text = decodeTextFile(await file.bytes());
  if (!isInclusionProof(text)) {
    const note = text.startsWith('old ') ? parseConsistencyProof(text).checkpoint : text;
    const head = await openCheckpoint(note, key);
    return { head, what: `The checkpoint of ${counted(head.size, 'event')}` };
  }
  const receipt = await openReceipt(text, key);
  const { index, names, checkpoint } = receipt;
  const what = names ? `The receipt of record ${index}` : `The receipt of the event at index ${index}`;
  return { head: checkpoint, what, receipt };
}

async function compare(earlier: TreeHead, what: string, { api, newest }: Log): Promise<Result> {
  const later = await newest();
  const isShorter = later.size < earlier.size;
  const read = (from: number, to: number) =>
    consistencyProofFromTiles(from, to, (tile) => api.getBytes(tilePath(tile)));
  if (!isShorter && verifyConsistency(earlier, later, await read(earlier.size, later.size))) {
    const text = `holds: it is signed, and the log of ${counted(later.size, 'event')} still begins with it.`;
    return { verdict: 'good', text: `${what} ${text}` };
  }
  const problem = isShorter
    ? `the log lost events: it has signed ${counted(earlier.size, 'event')}, and now signs ${count(later.size)}`
    : 'the log no longer begins with it: events were altered, removed or inserted, or its tiles are false';
  return {
    verdict: 'bad',
    text: `${what} is signed, but ${problem}.`,
    topic: isShorter ? 'lost' : 'evidence',
    facts: [
      ['Size and root in the file', formatTreeHead(earlier)],
      ['Size and root of the log', formatTreeHead(later)],
    ],
  };
}
