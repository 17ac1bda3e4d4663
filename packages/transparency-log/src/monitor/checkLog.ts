import { readEntriesAfter } from '../entries/verifiedEntries.ts';
import { TileMismatch } from '../merkle/tiles.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { MAX_CLOCK_DIFFERENCE_MS } from '../witness/policy.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import { compareWithTree, openTree } from './consistency.ts';
import { type FetchOptions, fetchCheckpoint } from './fetchCheckpoint.ts';
import { type LogClient, LogUnavailable } from './logClient.ts';
import { describe, findLargest, type Received } from './received.ts';
import { Rereading } from './rereading.ts';
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

type Options = FetchOptions & {
  client: Pick<LogClient, 'entries'>;
  /** Whether to compare all events with the tree, not only new events. */
  all?: boolean | undefined;
};

/** Checks the checkpoint against earlier checkpoints, and the events against the tree. @throws Alarm, LogUnavailable */
export async function checkLog(given: Omit<Options, 'rereading'>): Promise<Checked> {
  const options: Options = { ...given, rereading: new Rereading(given) };
  const { checkpoint, state, cosignedAt } = await fetchCheckpoint(options);
  if (checkpoint === state.checkpoint && state.pending.length === 0 && !options.all)
    return { state: { ...state, checkpoint }, added: 0, again: 0, cosignedAt };
  let compared = options.all ? 0 : (state.checkpoint?.size ?? 0);
  return orMismatch(checkpoint, options, async () => {
    const tree = await openTree(checkpoint, state, options.client);
    await compareWithTree(tree, knownCheckpoints(state));
    const pending = await compareAhead(checkpoint, { ...options, state });
    const before = state.checkpoint?.size ?? 0;
    for await (const { first, entries } of readEntriesAfter(compared, tree.tiles, options.client))
      compared = first + entries.length - 1; // verified; a retry does not read them again
    const tiles = tree.tiles.partial;
    const added = checkpoint.size - before;
    return { state: { checkpoint, pending, tiles }, added, again: options.all ? before : 0, cosignedAt };
  });
}

/** @throws Alarm if tiles or entries do not match the tree of the checkpoint */
async function orMismatch<T>(checkpoint: Received, options: Options, read: () => Promise<T>): Promise<T> {
  try {
    return await options.rereading.read(read);
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
async function compareAhead({ size }: TreeHead, options: Options): Promise<readonly Received[]> {
  const { state, client, now, onNotice } = options;
  const ahead = state.pending.filter((pending) => pending.size > size);
  const largest = findLargest(ahead);
  if (!largest) return ahead;
  try {
    await orMismatch(largest, options, async () =>
      compareWithTree(await openTree(largest, state, client), knownCheckpoints(state)),
    );
    if (now().getTime() - Date.parse(largest.receivedAt) > MAX_CLOCK_DIFFERENCE_MS)
      onNotice(`the log shows the tiles of ${describe(largest)}, and still signs ${size} events`);
    return [largest];
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    onNotice(`the log has yet to show what it signed in ${describe(largest)}: ${error.message}`);
    return ahead;
  }
}
