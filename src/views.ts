import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { EventStore, Logger } from '@event-sourced/event-log';
import { databaseFile, type WalThread } from '@event-sourced/event-log/disk';
import { Follower, type Progress, type View } from '@event-sourced/event-log/views';
import { MerkleTreeView } from '@event-sourced/transparency-log/view';
import { PlantsByUser } from '../projections/plantsByUser.ts';
import type { Config } from './config.ts';

/** A view in a file of its own. */
type ListedView<V extends View = View> = {
  file: (dataDir: string) => string;
  open: (file: string, walThread?: WalThread) => V;
  /** Views of exact bytes read the log for hashing, and skip no event. */
  isForHashing: boolean;
  /** Whether reads and /health/ready wait for it. Others catch up after those. */
  isAwaited: boolean;
  isOn: (config: Pick<Config, 'merkleTree'>) => boolean;
};

const view = <V extends View>(name: string, open: ListedView<V>['open']): ListedView<V> => ({
  file: (dataDir) => databaseFile(dataDir, name),
  open,
  isForHashing: false,
  isAwaited: true,
  isOn: () => true,
});

/** Everything that the service derives from the log. */
export const VIEWS = {
  plantsByUser: view('view.db', (...args) => new PlantsByUser(...args)),
  merkleTree: {
    ...view('merkleTree.db', (...args) => MerkleTreeView.open(...args)),
    isForHashing: true,
    isAwaited: false,
    isOn: ({ merkleTree }: Pick<Config, 'merkleTree'>) => merkleTree,
  },
};

type Opened = { readonly [Name in keyof typeof VIEWS]: ReturnType<(typeof VIEWS)[Name]['open']> };
/** The views that reads wait for. */
export type Views = Omit<Opened, 'merkleTree'>;

/** The files of all views in a data directory, also of those that are off. */
export const viewFiles = (dataDir: string): string[] => Object.values(VIEWS).map(({ file }) => file(dataDir));

/** Between pieces of a view that nothing waits for, while others catch up. */
const PAUSE_MS = 20;

type Context = {
  logger: Logger;
  resources: AsyncDisposableStack;
  walThread?: WalThread;
  trackProgress?: (view: string) => (progress: Progress) => void;
};

/** Opens and follows the views that are on; `resources` stops and closes them. */
export function followViews(
  store: EventStore,
  config: Pick<Config, 'dataDir' | 'merkleTree' | 'skipEvents' | 'eventStoreDb'>,
  { logger, resources, walThread, trackProgress }: Context,
) {
  const { dataDir, skipEvents, eventStoreDb } = config;
  const awaited: Follower[] = [];
  /** EventStoreDB's events are read once for all views. */
  const beforePiece = async (): Promise<void> => {
    await nextTurn();
    const isCatchingUp = awaited.some(({ notReady }) => notReady !== undefined);
    if (isCatchingUp && !eventStoreDb) await sleep(PAUSE_MS);
  };
  const views: Record<string, View> = {};
  const followers: Record<string, Follower> = {};
  for (const [name, { file, open, isForHashing, isAwaited, isOn }] of Object.entries<ListedView>(VIEWS)) {
    if (!isOn(config)) continue;
    const path = file(dataDir);
    const view = resources.adopt(open(path, walThread), (view) => view.close());
    const follower = new Follower({
      store: isForHashing ? store.forHashing : store,
      view,
      logger,
      ...(trackProgress && { onProgress: trackProgress(name) }),
      ...(isForHashing ? { keepMismatchAs: `${path}.mismatch` } : { skip: skipEvents }),
      ...(!isAwaited && { beforePiece }),
    });
    resources.defer(() => follower.stop());
    views[name] = view;
    followers[name] = follower;
    if (isAwaited) awaited.push(follower);
  }
  return {
    views: views as Views,
    tree: followers.merkleTree as Follower<MerkleTreeView> | undefined,
    awaited,
    all: Object.values(followers),
  };
}
