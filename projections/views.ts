import { join } from 'node:path';
import type { Checkpointer, View } from '@event-sourced/event-log/views';
import { PlantsByUser } from './plantsByUser.ts';

/** The views. The service follows each of them, /health/ready waits for it, and `rebuild` rebuilds it. */
export const VIEWS = {
  plantsByUser: {
    file: (dataDir: string): string => join(dataDir, 'view.db'),
    view: PlantsByUser,
  },
};

export type Views = {
  readonly [Name in keyof typeof VIEWS]: InstanceType<(typeof VIEWS)[Name]['view']>;
};

/** Opens the views in a data directory, until `resources` are disposed of. */
export function openViews(
  dataDir: string,
  resources: AsyncDisposableStack,
  checkpointer?: Checkpointer,
): Views {
  const opened: Record<string, View> = {};
  for (const [name, { file, view }] of Object.entries(VIEWS)) {
    opened[name] = resources.adopt(view.open(file(dataDir), checkpointer), (one) => one.close());
  }
  return opened as Views;
}
