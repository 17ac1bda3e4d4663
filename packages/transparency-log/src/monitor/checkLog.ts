import { UnnamedStubs } from '../entries/unnamedStubs.ts';
import { readEntriesAfter } from '../entries/verifiedEntries.ts';
import { TileMismatch } from '../merkle/tiles.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { MAX_CLOCK_DIFFERENCE_MS } from '../witness/policy.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import { checkStubs } from './checkStubs.ts';
import { compareWithTree, openTree } from './consistency.ts';
import { fetchCheckpoint } from './fetchCheckpoint.ts';
import { NotChecked } from './notChecked.ts';
import { describe, findLargest, type Received } from './received.ts';
import { rereading, wrongTile } from './reread.ts';
import { knownCheckpoints, type State } from './state.ts';

/** The result of a check: the log is consistent with its earlier checkpoints, and `added` events match its tree. */
export type Checked = {
  state: State & { checkpoint: Received };
  added: number;
  /** The number of events that were compared before. */
  again: number;
  /** The time of the quorum's cosignatures, in seconds since 1970. */
  cosignedAt: number | undefined;
};

/** Checks the checkpoint against earlier checkpoints, and the events against the tree. @throws Alarm, NotChecked */
export async function checkLog(options: Omit<Check, 'reread'>): Promise<Checked> {
  const check: Check = { ...options, reread: rereading(options) };
  const { checkpoint, state, cosignedAt } = await fetchCheckpoint(check);
  const before = state.checkpoint?.size ?? 0;
  let compared = check.all ? 0 : before;
  const stubs = new UnnamedStubs(state.unnamed.map(({ leaf, number }) => [leaf, number]));
  return orMismatch(checkpoint, check, async () => {
    const tree = await openTree(checkpoint, { ...check, state });
    await compareWithTree(tree, knownCheckpoints(state));
    const pending = await compareAhead(checkpoint, { ...check, state });
    for await (const { first, entries } of readEntriesAfter(compared, tree.tiles, check.client)) {
      for (const [i, entry] of entries.entries()) stubs.addEntry(entry, first + i);
      compared = first + entries.length - 1; // verified; a retry does not read them again
    }
    const { unnamed, latest } = await checkStubs(stubs, checkpoint, { ...check, state });
    const tiles = tree.tiles.partial;
    const added = checkpoint.size - before;
    return {
      state: { checkpoint, pending: latest ? [...pending, latest] : pending, tiles, unnamed },
      added,
      again: check.all ? before : 0,
      cosignedAt,
    };
  });
}

/** @throws Alarm if tiles or entries do not match the tree of the checkpoint */
async function orMismatch<T>(checkpoint: Received, check: Check, read: () => Promise<T>): Promise<T> {
  try {
    return await check.reread(read, wrongTile);
  } catch (error) {
    if (!(error instanceof TileMismatch)) throw error;
    const received = [...error.received].map(([path, content]) => ({
      name: path.replaceAll('/', '-'),
      content,
    }));
    throw new Alarm('mismatch', error.message, [...checkpointFiles(checkpoint), ...received]);
  }
}

/** Compares larger checkpoints from others if the log serves their tiles; returns the checkpoints that stay pending. */
async function compareAhead({ size }: TreeHead, check: Check): Promise<readonly Received[]> {
  const { state, now, onNotice } = check;
  const ahead = state.pending.filter((pending) => pending.size > size);
  const largest = findLargest(ahead);
  if (!largest) return ahead;
  try {
    await orMismatch(largest, check, async () =>
      compareWithTree(await openTree(largest, check), knownCheckpoints(state)),
    );
    if (now().getTime() - Date.parse(largest.receivedAt) > MAX_CLOCK_DIFFERENCE_MS)
      onNotice(`the log shows the tiles of ${describe(largest)}, and still signs ${size} events`);
    return [largest];
  } catch (error) {
    if (!(error instanceof NotChecked)) throw error;
    onNotice(`the log has yet to show what it signed in ${describe(largest)}: ${error.message}`);
    return ahead;
  }
}
