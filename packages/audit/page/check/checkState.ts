import type { Checkpoint, VerifierKey } from '@event-sourced/tlog';
import type { Receipt } from '@event-sourced/transparency-log/digest';
import type { ComparedLog, Topic as Contradicted } from '../readLog.ts';

export type Card = 'key' | 'checkpoint' | 'whole' | 'evidence';
/** The paragraph of the help about a result. */
export type Topic = 'key' | 'file' | Contradicted;
export type Fact = readonly [name: string, value: string | undefined];

/** `bad`: something contradicts what is signed. What could not be asked or read is `unknown`, and no contradiction. */
export type Verdict = 'good' | 'bad' | 'unknown';
export type Result = {
  verdict: Verdict;
  text: string;
  topic?: Topic | undefined;
  facts?: readonly Fact[];
  /** The paths of tiles that differ. */
  paths?: string;
  /** The line of an event that differs, and its index. */
  line?: string | undefined;
  index?: number | undefined;
  /** A receipt that holds. */
  receipt?: Receipt;
};

export type CheckState = {
  /** Whether the service has a Merkle tree; undefined until it is known. */
  hasTree?: boolean;
  /** The key that was submitted last, and what each card has found with it. */
  key?: VerifierKey;
  results: Readonly<Partial<Record<Card, Result>>>;
  /** When the last result was found. */
  checkedAt?: number;
  /** The latest checkpoint with a valid signature of this key. */
  checkpoint?: Checkpoint;
  /** The signed tree head that the events were compared with last: the log may have grown since. */
  compared?: ComparedLog;
  /** How far the log was read; undefined while it is not. */
  reading?: { events: number; size: number; startedAt: number } | undefined;
  /** The valid receipts that were given, by the index of their event. */
  receipts: ReadonlyMap<number, Receipt>;
};

export const NOT_CHECKED: CheckState = { results: {}, receipts: new Map() };
