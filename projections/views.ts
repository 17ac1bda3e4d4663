import { join } from 'node:path';
import { PlantsByUser } from './plantsByUser.ts';

/**
 * The views. The service opens, follows and closes each of them, /health/ready waits for it, and `rebuild`
 * rebuilds it.
 */
export const VIEWS = {
  plantsByUser: {
    file: (dataDir: string): string => join(dataDir, 'view.db'),
    open: (file: string) => new PlantsByUser(file),
  },
};

/** The open views, by name. */
export type Views = { readonly [Name in keyof typeof VIEWS]: ReturnType<(typeof VIEWS)[Name]['open']> };

/** Opens the views in a data directory, until `resources` are disposed of. */
export function openViews(dataDir: string, resources: AsyncDisposableStack): Views {
  const views = Object.entries(VIEWS).map(([name, { file, open }]) => {
    const view = open(file(dataDir));
    resources.defer(() => view.close());
    return [name, view];
  });
  return Object.fromEntries(views);
}
