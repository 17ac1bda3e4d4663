import { EVENTS_ERASED, parseRecord } from '@event-sourced/event-log/erasure';
import { type Checkpoint, decodeUtf8, openInclusionProof, type VerifierKey } from '@event-sourced/tlog';
import { type EventInText, readText } from './readText.ts';

/** A verified receipt. `text`: of the event. `names`: the indices of the events that it names as erased, if it is a record. */
export type Receipt = {
  index: number;
  event: EventInText;
  text: string;
  checkpoint: Checkpoint;
  names: readonly number[] | undefined;
};

/** Verifies an inclusion proof whose extra data is the text of an event. @throws NotVerified */
export async function openReceipt(proof: string, key: VerifierKey): Promise<Receipt> {
  const { index, extra, checkpoint } = await openInclusionProof(proof, key, (text) => readText(text).entry);
  const { event } = readText(extra);
  const names = event.type === EVENTS_ERASED ? parseRecord(event.data) : undefined;
  const isRecord = names !== undefined && (names.at(-1) as number) < index;
  return { index, event, text: decodeUtf8(extra), checkpoint, names: isRecord ? names : undefined };
}
