import { readEntriesAfter, TileMismatch, toHex } from '@event-sourced/tlog';
import { Alarm, mismatch } from './alarm.ts';
import type { Check } from './check.ts';
import { EventCheck } from './eventCheck.ts';
import { NotChecked } from './notChecked.ts';
import type { Received } from './received.ts';
import type { EventsRead } from './state.ts';
import { type State, withCompared } from './state.ts';
import { type Verified, verifyCheckpoint } from './verifyCheckpoint.ts';

const MAX_ATTEMPTS = 5;
const RETRY_INTERVAL_MS = 1_000;
/** The time for the record of an erasure that runs: half a minute. */
const MAX_RECORD_WAITS = 30;
const CHECKPOINT_INTERVAL_MS = 1_000;

/** The result of a check: the log is consistent with its earlier checkpoints, and `added` entries match its tree. */
export type Checked = {
  state: State;
  checkpoint: Received;
  added: number;
  /** The number of entries that were compared before. */
  again: number;
  /** The time of the quorum's cosignatures, in seconds since 1970. */
  cosignedAt: number | undefined;
  events: EventsRead | undefined;
};

/**
 * Checks a log. A check that fails is repeated whole: a wrong response may come from a stale instance, a proxy, a cache or
 * a network. A fork is final, since it is signed. @throws Alarm, NotChecked
 */
export async function checkLog(options: Check): Promise<Checked> {
  let { state } = options;
  const save = (newer: State): Promise<void> => {
    state = newer;
    return options.save(newer);
  };
  let alarm: Alarm | undefined;
  for (let attempts = 1; ; attempts++) {
    try {
      const checked = await checkOnce({ ...options, state, save });
      if (alarm) options.onNotice(`the check has passed when it was repeated, after ${alarm.message}`);
      return checked;
    } catch (error) {
      if (!(error instanceof Alarm || error instanceof NotChecked) || isFinal(error)) throw error;
      if (attempts === MAX_ATTEMPTS) throw error;
      if (error instanceof Alarm) alarm ??= error;
      await options.sleep(RETRY_INTERVAL_MS);
    }
  }
}

/** The log has not signed a record in time: another attempt would wait again. */
class RecordNotSigned extends NotChecked {}

const isFinal = (error: Alarm | NotChecked): boolean =>
  error instanceof Alarm ? error.kind === 'fork' : error instanceof RecordNotSigned;

async function checkOnce(check: Check): Promise<Checked> {
  const before = check.state.compared?.size ?? 0;
  const events = check.events ? new EventCheck(check) : undefined;
  let compared = check.all ? 0 : before;
  let verified = await verifyCheckpoint(check);
  for (;;) {
    const { checkpoint, tree, cosignedAt } = verified;
    await compareEntries(Math.min(compared, events?.index ?? compared), verified, check, events);
    compared = checkpoint.size;
    const due = await events?.judge(verified);
    const read = events?.read ?? verified.state.events;
    const state = { ...withCompared(verified.state, checkpoint, tree), events: read };
    const added = checkpoint.size - before;
    if (due === undefined)
      return { state, checkpoint, added, again: check.all ? before : 0, cosignedAt, events: events?.read };
    verified = await waitForRecords(due, { ...check, state });
  }
}

/** Compares entries with the tree and, in one pass, events with the entries. @throws Alarm, NotChecked */
async function compareEntries(
  from: number,
  { checkpoint, tree }: Verified,
  { client }: Check,
  events: EventCheck | undefined,
): Promise<void> {
  const lines = events?.lines();
  try {
    for await (const { first, entries } of readEntriesAfter(from, tree, client))
      for (const [i, entry] of entries.entries())
        if (lines && events?.index === first - 1 + i)
          events.add(toHex(entry), await lines.next(), checkpoint);
  } catch (error) {
    throw error instanceof TileMismatch ? mismatch(checkpoint, error) : error;
  } finally {
    await lines?.return(undefined);
  }
}

/** A checkpoint of `due` events or more. Until then, the state remembers the stubs. @throws Alarm, NotChecked */
async function waitForRecords(due: number, check: Check): Promise<Verified> {
  let { state } = check;
  await check.save(state);
  for (let waits = 0; waits < MAX_RECORD_WAITS; waits++) {
    await check.sleep(CHECKPOINT_INTERVAL_MS);
    const verified = await verifyCheckpoint({ ...check, state, witnessCheckpoint: undefined });
    if (verified.checkpoint.size >= due) return verified;
    state = verified.state;
  }
  throw new RecordNotSigned(
    `an event was erased, and the log has yet to sign the ${due} events that it shows, with the record`,
  );
}
