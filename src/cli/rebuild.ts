import { existsSync } from 'node:fs';
import { rebuildView } from '../../projections/rebuildView.ts';
import { VIEWS } from '../../projections/views.ts';
import { lockDataDir, logFile } from '../disk/dataDir.ts';
import { loggerTo, openStore } from '../stores.ts';
import type { Context } from './context.ts';
import { commandProgress } from './progress.ts';

/** Rebuilds every view from the log. @throws Error if a server is using it */
export async function rebuildCommand(context: Context): Promise<void> {
  const { config, print, onTerminal, onFatal, signal } = context;
  const { dataDir, eventStoreDb, skipEvents: skip } = config;
  if (!eventStoreDb && !existsSync(logFile(dataDir))) throw new Error(`there is no log ${logFile(dataDir)}`);
  await using resources = new AsyncDisposableStack();
  resources.use(lockDataDir(dataDir));
  const store = await openStore(config, { logger: loggerTo(print), now: () => new Date(), onFatal });
  resources.defer(() => store.close());
  for (const [name, { file, open }] of Object.entries(VIEWS)) {
    using progress = commandProgress(print, onTerminal);
    const { events } = await rebuildView({
      log: store,
      open,
      file: file(dataDir),
      skip,
      signal,
      onProgress: (done) => progress.show({ step: 'rebuilding', ...done }),
    });
    progress[Symbol.dispose]();
    print(`rebuilt the view ${name} from ${events} events`);
  }
}
