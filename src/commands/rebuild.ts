import { existsSync } from 'node:fs';
import { rebuildView } from '../../projections/rebuildView.ts';
import { takeDataDir } from '../dataDir.ts';
import { logFile, logTo, openStore, viewFile } from '../openStore.ts';
import { showProgress } from './showProgress.ts';
import type { Surroundings } from './surroundings.ts';

/** Builds the view anew from the log, in place of the one that is there. @throws Error where a server is using it */
export async function rebuildCommand(surroundings: Surroundings): Promise<void> {
  const { config, say, onTerminal, onFatal, signal } = surroundings;
  const { dataDir, eventStoreDb, skipEvents: skip } = config;
  if (!eventStoreDb && !existsSync(logFile(dataDir))) throw new Error(`there is no log ${logFile(dataDir)}`);
  await using open = new AsyncDisposableStack();
  const lock = takeDataDir(dataDir);
  open.defer(() => lock.close());
  const store = await openStore(config, { log: logTo(say), now: () => new Date(), onFatal });
  open.defer(() => store.close());
  const progress = open.use(showProgress(say, onTerminal));
  const { events } = await rebuildView({
    log: store,
    file: viewFile(dataDir),
    skip,
    signal,
    onProgress: (done) => progress.show({ step: 'rebuilding', ...done }),
  });
  progress[Symbol.dispose]();
  say(`the view has been built anew from ${events} events`);
}
