import type { TreeHead } from '../merkle/treeHead.ts';
import type { VerifiedTiles } from '../merkle/verifiedTiles.ts';
import { Duplicates } from './duplicates.ts';
import { readEntriesAfter } from './entries.ts';
import { type CheckEvent, EventCheck } from './eventCheck.ts';
import type { LogClient } from './logClient.ts';
import type { State } from './state.ts';

export type EventOptions = {
  client: Pick<LogClient, 'entries'>;
  /** Whether all events are checked, not only the new ones. */
  all?: boolean | undefined;
  check?: CheckEvent | undefined;
  /** What is known of the events up to a checkpoint; undefined if they must be read again. */
  readDuplicates?: (head: TreeHead) => Promise<Duplicates | undefined>;
  now: () => Date;
  onProblem: (problem: string) => void;
  /** Gets the entry of each new event. */
  onEntry?: ((entry: Buffer) => Promise<void>) | undefined;
  onProgress?: (events: number, end: number) => void;
};

type CheckedEvents = {
  unknown: number;
  latestTime: number | undefined;
  /** What later events are compared with; undefined if that of before still holds, or there are too many. */
  duplicates: Duplicates | undefined;
};

/** In larger logs, only the events of one run are compared: false positives would cost too many reads of the whole log. */
const MAX_COMPARED_EVENTS = 10_000_000;

/** Checks the new events of a tree, or all. @throws TileMismatch, LogUnavailable */
export async function checkEvents(
  tiles: VerifiedTiles,
  { checkpoint, latestTime }: State,
  { client, all, check, readDuplicates, now, onProblem, onEntry, onProgress }: EventOptions,
): Promise<CheckedEvents> {
  const { size } = tiles.head;
  const known = checkpoint?.size ?? 0;
  const from = all ? 0 : known;
  const isKept = readDuplicates !== undefined && size > from && size <= MAX_COMPARED_EVENTS;
  const hasEarlier = isKept && from > 0;
  const kept = hasEarlier ? await readDuplicates(checkpoint as TreeHead) : new Duplicates();
  const events = new EventCheck(now, all ? undefined : latestTime, check, kept);
  const report = (problem: string | undefined, ordinal: number): void => {
    if (problem !== undefined && ordinal > from) onProblem(`event ${ordinal}, ${problem}`);
  };
  for await (const { first, entries } of readEntriesAfter(kept ? from : 0, tiles, client)) {
    for (const [i, entry] of entries.entries()) {
      if (first + i <= from) events.addEarlier(entry);
      else report(events.problem(entry), first + i);
      if (first + i > known) await onEntry?.(entry);
    }
    onProgress?.(first - 1 + entries.length, size);
  }
  if (events.duplicates.hasCandidates)
    for await (const { first, entries } of readEntriesAfter(hasEarlier ? 0 : from, tiles, client))
      for (const [i, entry] of entries.entries()) report(events.duplicate(entry, first + i), first + i);
  if (events.duplicates.isIncomplete) onProblem('more events may occur twice than could be compared');
  return {
    unknown: events.unknown,
    latestTime: events.latestTime,
    duplicates: isKept ? events.duplicates : undefined,
  };
}
