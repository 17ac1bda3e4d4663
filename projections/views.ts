import { join } from 'node:path';
import type { Checkpointer, View } from '@event-sourced/event-log/views';
import { PlantsByUser } from './plantsByUser.ts';

/** The views. The service follows each of them, /health/ready waits for it, and `rebuild` rebuilds it. */
export const VIEWS = {
  plantsByUser: {
    file: (dataDir: string): string => join(dataDir, 'view.db'),
    open: (file: string, checkpointer?: Checkpointer) => PlantsByUser.open(file, checkpointer),
  },
};

export type Views = {
  readonly [Name in keyof typeof VIEWS]: ReturnType<(typeof VIEWS)[Name]['open']>;
};

/** Opens the views in a data directory; `resources` closes them. */
export function openViews(
  dataDir: string,
  resources: AsyncDisposableStack,
  checkpointer?: Checkpointer,
): Views {
  const opened: Record<string, View> = {};
  for (const [name, { file, open }] of Object.entries(VIEWS))
    opened[name] = resources.adopt(open(file(dataDir), checkpointer), (view: View) => view.close());
  return opened as Views;
}
