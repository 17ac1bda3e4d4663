import { type CheckpointThread, databaseFile } from '@event-sourced/event-log/disk';
import type { View } from '@event-sourced/event-log/views';
import { PlantsByUser } from './plantsByUser.ts';

const inFile = <V extends View>(
  name: string,
  open: (file: string, checkpointer?: CheckpointThread) => V,
) => ({
  file: (dataDir: string): string => databaseFile(dataDir, name),
  open,
});

/** The views. The service follows each of them, /health/ready waits for it, and `rebuild` rebuilds it. */
export const VIEWS = {
  plantsByUser: inFile('view.db', (...args) => new PlantsByUser(...args)),
};

export type Views = {
  readonly [Name in keyof typeof VIEWS]: ReturnType<(typeof VIEWS)[Name]['open']>;
};

/** Opens the views in a data directory; `resources` closes them. */
export function openViews(
  dataDir: string,
  resources: AsyncDisposableStack,
  checkpointer?: CheckpointThread,
): Views {
  const opened: Record<string, View> = {};
  for (const [name, { file, open }] of Object.entries(VIEWS))
    opened[name] = resources.adopt(open(file(dataDir), checkpointer), (view: View) => view.close());
  return opened as Views;
}
