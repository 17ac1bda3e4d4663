import { stat, statfs } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Follower } from '../projections/follow.ts';
import type { TreeThread } from '../projections/merkleTree/treeThread.ts';
import { ViewLag } from '../projections/viewLag.ts';
import { merkleTreeFile, VIEWS } from '../projections/views.ts';
import type { InFlight } from './api/inFlight.ts';
import { logFile } from './disk/dataDir.ts';
import type { EventStore, Position } from './eventStore/eventStore.ts';
import type { Measurements, ViewMeasurements } from './metrics/metrics.ts';
import { unlessAborted } from './time/sleep.ts';

type Sources = {
  dataDir: string;
  store: EventStore;
  followers: readonly Follower[];
  tree: TreeThread | undefined;
  eventStreams: InFlight;
  listsInFlight: InFlight;
  now: () => Date;
};

/** The event store must respond within this time, in milliseconds: Prometheus waits for 10 000 by default. */
const STORE_TIMEOUT_MS = 2_000;

/** What the metrics show of the parts of the service, read at each call. */
export function measurementsOf(sources: Sources): () => Promise<Measurements> {
  const { dataDir, store, followers, tree, eventStreams, listsInFlight, now } = sources;
  const lags = new Map([...followers, ...(tree ? [tree] : [])].map((it) => [it, new ViewLag(store, now)]));
  const lagOf = async (of: Follower | TreeThread, position: Position | undefined, signal: AbortSignal) =>
    position === undefined ? undefined : respondsIn(signal, lags.get(of)?.at(position, signal));

  const views = (signal: AbortSignal): Promise<ViewMeasurements>[] => {
    const ofFollowers = followers.map(async (follower) => ({
      name: follower.view.name,
      isReady: follower.notReady === undefined,
      lag: await lagOf(follower, follower.readTo, signal),
      rebuilds: follower.rebuilds,
      saveFailures: follower.saveFailures,
    }));
    if (!tree) return ofFollowers;
    const ofTree = async () => ({
      name: 'merkleTree',
      isReady: tree.notReady === undefined,
      lag: await lagOf(tree, tree.readTo, signal),
      rebuilds: tree.rebuilds,
      saveFailures: undefined,
    });
    return [...ofFollowers, ofTree()];
  };

  return async () => {
    const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
    const canRead = (await respondsIn(signal, store.lastPosition())) !== undefined;
    return {
      storeAvailable: canRead && store.appendsRefused === undefined,
      views: await Promise.all(views(signal)),
      merkleTree: tree && { size: tree.saved?.size ?? 0, failures: tree.failures },
      eventStreams: eventStreams.total,
      listsInFlight: listsInFlight.total,
      files: await fileSizes(dataDir),
      fileSystem: await fileSystemOf(dataDir),
    };
  };
}

/** What a promise resolves to before the signal aborts; undefined also if it rejects. */
function respondsIn<T>(signal: AbortSignal, promise: Promise<T> | undefined): Promise<T | undefined> {
  return unlessAborted(promise ?? Promise.resolve(undefined), signal).catch(() => undefined);
}

/** The bytes of the database files in a data directory, and of their write-ahead logs. */
async function fileSizes(dataDir: string): Promise<Map<string, number>> {
  const views = Object.values(VIEWS).map(({ file }) => file(dataDir));
  const files = [logFile(dataDir), ...views, merkleTreeFile(dataDir)].flatMap((file) => [
    file,
    `${file}-wal`,
  ]);
  const sizes = await Promise.all(
    files.map(async (file) => [basename(file), (await stat(file).catch(() => undefined))?.size] as const),
  );
  return new Map(sizes.filter((entry): entry is [string, number] => entry[1] !== undefined));
}

async function fileSystemOf(dataDir: string): Promise<{ size: number; free: number } | undefined> {
  const fileSystem = await statfs(dataDir).catch(() => undefined);
  if (!fileSystem) return undefined;
  const { blocks, bavail, bsize } = fileSystem;
  return { size: blocks * bsize, free: bavail * bsize };
}
