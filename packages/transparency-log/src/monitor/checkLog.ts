import { TileMismatch } from '../merkle/tiles.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import { checkEvents, type EventOptions } from './checkEvents.ts';
import { compareWithTree, openTree } from './consistency.ts';
import type { Duplicates } from './duplicates.ts';
import { type FetchOptions, fetchCheckpoint } from './fetchCheckpoint.ts';
import { LogUnavailable } from './logClient.ts';
import { describe, largestOf, type ReceivedCheckpoint } from './receivedCheckpoint.ts';
import { knownOf, type State } from './state.ts';

/** The log is consistent with all that it has signed before; its `added` events, or all, were checked. */
type Checked = {
  checkpoint: ReceivedCheckpoint;
  state: State;
  added: number;
  unknown: number;
  /** When the newest cosignature was made, in seconds since 1970. */
  cosignedAt: number | undefined;
  /** What is compared with later events; undefined if none was added. */
  duplicates?: Duplicates | undefined;
};

type Options = FetchOptions & EventOptions;

/** Checks what the log signs against what it signed before, and new events. @throws Alarm, LogUnavailable */
export async function checkLog(options: Options): Promise<Checked> {
  const { checkpoint, state, cosignedAt } = await fetchCheckpoint(options);
  if (checkpoint === state.checkpoint && state.pending.length === 0 && !options.all)
    return { checkpoint, state, added: 0, unknown: 0, cosignedAt };
  return orMismatch(checkpoint, async () => {
    const tree = await openTree(checkpoint, state, options.client);
    await compareWithTree(tree, knownOf(state));
    const pending = await compareAhead(checkpoint, { ...options, state });
    const known = state.checkpoint?.size ?? 0;
    const { unknown, latestTime, duplicates } = await checkEvents(tree.tiles, state, options);
    return {
      checkpoint,
      state: { checkpoint, pending, tiles: tree.tiles.partial, latestTime },
      added: checkpoint.size - known,
      unknown,
      cosignedAt,
      duplicates,
    };
  });
}

/** @throws Alarm if what is read does not match the tree of the checkpoint */
async function orMismatch<T>(checkpoint: ReceivedCheckpoint, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof TileMismatch)) throw error;
    const received = [...error.received].map(([path, content]) => ({
      name: path.replaceAll('/', '-'),
      content,
    }));
    throw new Alarm('mismatch', error.message, [...checkpointFiles(checkpoint), ...received]);
  }
}

/** Compares larger checkpoints, which others have shown, if the log shows their tiles; returns those that stay pending. */
async function compareAhead(
  { size }: ReceivedCheckpoint,
  { state, client, onNotice }: Options,
): Promise<readonly ReceivedCheckpoint[]> {
  const ahead = state.pending.filter((one) => one.size > size);
  const largest = largestOf(ahead);
  if (!largest) return ahead;
  try {
    await orMismatch(largest, async () =>
      compareWithTree(await openTree(largest, state, client), knownOf(state)),
    );
    return [largest];
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    onNotice(`the log has yet to show what it signed in ${describe(largest)}: ${error.message}`);
    return ahead;
  }
}
