import { existsSync } from 'node:fs';
import type { EventLog } from '@event-sourced/event-log';
import { lockDataDir, logFile } from '@event-sourced/event-log/disk';
import type { View } from '@event-sourced/event-log/views';
import { rebuildView } from '@event-sourced/event-log/views';
import { openStore } from '../stores.ts';
import { VIEWS } from '../views.ts';
import { type Context, loggerTo } from './context.ts';
import { commandProgress } from './progress.ts';

type Rebuilt = { name: string; file: string; open: (file: string) => View };

/** Rebuilds every view from the log. @throws Error if a server is running */
export async function rebuildCommand(context: Context): Promise<void> {
  const { config, print, onFatal } = context;
  const { dataDir, eventStoreDb } = config;
  if (!eventStoreDb && !existsSync(logFile(dataDir))) throw new Error(`there is no log ${logFile(dataDir)}`);
  await using resources = new AsyncDisposableStack();
  resources.use(lockDataDir(dataDir));
  const store = await openStore(config, { logger: loggerTo(print), now: () => new Date(), onFatal });
  resources.defer(() => store.close());
  for (const [name, { file, open, isOn, isForHashing }] of Object.entries(VIEWS)) {
    const log = isForHashing ? store.forHashing : store;
    if (isOn(config)) await rebuild({ name, file: file(dataDir), open }, log, context);
  }
}

async function rebuild({ name, ...view }: Rebuilt, log: EventLog, context: Context): Promise<void> {
  const { config, print, signal } = context;
  const progress = commandProgress(print);
  const { events } = await rebuildView({
    log,
    ...view,
    skip: config.skipEvents,
    signal,
    onProgress: (done) => progress.show({ step: 'rebuilding', ...done }),
  });
  print(`rebuilt the view ${name} from ${events} events`);
}
