import type { EventLog, Logger, Position } from '@event-sourced/event-log';
import { serve, threadData } from '@event-sourced/event-log/threads';
import { Follower, type Progress } from '@event-sourced/event-log/views';
import { checkTiles, damageOf } from './treeFile.ts';
import { MerkleTreeView, type SavedTree } from './treeView.ts';

// The Merkle tree has its own thread, which reads the log itself, so requests lose only processor time.

/** The thread opens the log itself: `module` exports `openLog`, which opens it at a location, beside its store. */
export type LogOfTree = { module: string; location: unknown };

type OpenLog = (
  location: unknown,
  options: { logger: Pick<Logger, LogLevel>; raw: true; storeIsOpen: true },
) => Promise<EventLog>;

export type TreeWorkerData = { file: string; log: LogOfTree };

/** The log was read up to `to`; the last event up to there is at `last`, and in the tree once it is saved. */
export type ReadLog = { to: Position; last: Position };

/** `saved` is undefined while the tree is emptied, since it does not belong to the log, or is damaged. */
export type TreeState = {
  saved: SavedTree | undefined;
  read: ReadLog | undefined;
  resets: number;
  rebuilds: number;
};

type LogLevel = 'info' | 'warn' | 'error' | 'fatal';
export type TreeEvent =
  | { state: TreeState }
  | { progress: Progress }
  | { log: { level: LogLevel; fields: object; message: string } };

/** `discard`: the file turned out to be damaged, for this reason, after so many resets; later it is another file. */
export type TreeOperations = { discard: (damage: { reason: string; resets: number }) => void };

const SAVE_INTERVAL_MS = 100;

const forward =
  (level: LogLevel) =>
  (fields: object | string, message = ''): void => {
    post({
      log: typeof fields === 'string' ? { level, fields: {}, message: fields } : { level, fields, message },
    });
  };
const logger = {
  info: forward('info'),
  warn: forward('warn'),
  error: forward('error'),
  fatal: forward('fatal'),
};

const { file, log: source } = threadData<TreeWorkerData>();
let isClosing = false;
const opening = open();
const post = serve<TreeOperations, void, TreeEvent>(
  {
    discard: async ({ reason, resets }) => {
      const { view, state } = await opening;
      if (resets === state.resets) view.discard(reason);
    },
    close: async () => {
      isClosing = true;
      const { follower, view, log, checking } = await opening;
      await follower.stop();
      await checking;
      await view.close();
      await log.close();
    },
  },
  undefined,
);
await opening;

async function open() {
  const { openLog } = (await import(source.module)) as { openLog: OpenLog };
  const log = await openLog(source.location, { logger, raw: true, storeIsOpen: true });
  const view = await MerkleTreeView.open(file);
  const state: TreeState = { saved: view.saved, read: undefined, resets: 0, rebuilds: 0 };
  const report = (change: Partial<TreeState>): void => post({ state: Object.assign(state, change) });
  view.onSaved = () => report({ saved: view.saved });
  view.onReset = () =>
    report({ saved: undefined, read: undefined, resets: state.resets + 1, rebuilds: follower.rebuilds });
  view.onSaved();
  const follower = new Follower({
    store: log,
    view,
    skip: new Set(),
    saveIntervalMs: SAVE_INTERVAL_MS,
    logger,
    onProgress: (progress) => post({ progress }),
    onReadTo: ({ position: to }) => report({ read: { to, last: view.applied.position } }),
  });
  return { log, view, state, follower, checking: check(view, state) };
}

/** Checks the file as it was opened, beside what is done with it. */
async function check(view: MerkleTreeView, state: TreeState): Promise<void> {
  if (view.replaced !== undefined) return; // it is gone
  try {
    await checkTiles(file, view.saved, () => !isClosing && state.resets === 0);
  } catch (error) {
    const damage = damageOf(error);
    if (state.resets > 0) return; // it is another file by now
    if (damage === undefined) throw error;
    view.discard(damage);
  }
}
