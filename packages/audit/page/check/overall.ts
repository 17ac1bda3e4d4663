import { are, counted } from '../text.ts';
import type { Card, CheckState, Result, Topic, Verdict } from './checkState.ts';

export const MARKS: Record<Verdict, string> = { good: '✓', bad: '✗', unknown: '?' };

/** What all cards say together; no verdict before anything is checked. */
type Overall = { verdict?: Verdict; text: string; topic?: Topic | undefined };

export function overall({ results, compared, checkpoint, reading }: CheckState): Overall {
  const cards = ['key', 'checkpoint', 'whole', 'evidence'] satisfies Card[];
  const found = cards.map((card) => results[card]).filter((result): result is Result => result !== undefined);
  const bad = found.find(({ verdict }) => verdict === 'bad');
  if (bad) return { verdict: 'bad', text: `The check failed: ${bad.text}`, topic: bad.topic };
  if (reading) return { text: 'Reading the whole log…' };
  if (results.whole?.verdict === 'good' && compared) {
    const { size, erased, records } = compared;
    const onRecord =
      erased > 0
        ? ` Of these, ${are(erased, 'event')} erased, on record (${counted(records, 'record')}).`
        : '';
    const all = size === 1 ? 'its event has' : `all ${counted(size, 'event')} have`;
    return { verdict: 'good', text: `The log is what it signs: ${all} the signed root.${onRecord}` };
  }
  const unknown = [results.whole, results.checkpoint].find((result) => result?.verdict === 'unknown');
  if (unknown) return { verdict: 'unknown', text: `Not checked: ${unknown.text}`, topic: unknown.topic };
  if (checkpoint)
    return { text: `The signature is valid. ${are(checkpoint.size, 'event')} not compared with it yet.` };
  const { key } = results;
  return key?.verdict === 'unknown'
    ? { verdict: 'unknown', text: `Not checked: ${key.text}` }
    : { text: 'Nothing is checked yet.' };
}
