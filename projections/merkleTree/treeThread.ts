import { parentPort, workerData } from 'node:worker_threads';
import { openLog } from '../../src/stores.ts';
import { Follower } from '../follow.ts';
import type { LogLevel, TreeMessage, TreeRequest, TreeThreadData } from './treeProtocol.ts';
import { MerkleTreeView } from './treeView.ts';

// The Merkle tree is computed and written on its own thread, which reads the log itself, so that it takes nothing
// from requests but processor time.

const SAVE_INTERVAL_MS = 100;

const port = parentPort as NonNullable<typeof parentPort>;
const { file, location } = workerData as TreeThreadData;
const post = (message: TreeMessage): void => port.postMessage(message);
const forward =
  (level: LogLevel) =>
  (fields: object | string, message?: string): void =>
    post({
      log:
        typeof fields === 'string'
          ? { level, fields: {}, message: fields }
          : { level, fields, message: message ?? '' },
    });
const logger = {
  info: forward('info'),
  warn: forward('warn'),
  error: forward('error'),
  fatal: forward('fatal'),
};

const log = await openLog(location, { logger, raw: true, storeIsOpen: true });
const view = await MerkleTreeView.open(file);
view.onSaved = () => post({ saved: view.saved });
let resets = 0;
view.onReset = () => post({ reset: true, resets: ++resets, rebuilds: follower.rebuilds });
view.onSaved();
const follower = new Follower({
  store: log,
  view,
  skip: new Set(),
  saveIntervalMs: SAVE_INTERVAL_MS,
  logger,
  onProgress: (progress) => post({ progress }),
  onReadTo: ({ position: to }) => post({ read: { to, last: view.applied.position } }),
});

port.on('message', async (request: TreeRequest) => {
  if ('discard' in request) {
    if (request.resets === resets) view.discard(request.discard);
    return;
  }
  await follower.stop();
  await view.close();
  await log.close();
  port.close();
});
