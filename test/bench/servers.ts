import { execFileSync } from 'node:child_process';
import { basename, join } from 'node:path';
import { type Contender, ROOT, startContender, startService, stopContender } from './contender.ts';
import { BARE, CRUD, SERVICE } from './names.ts';
import type { Bench } from './setUp.ts';

/** A running server, with its name in the results. */
export type Server = { name: string; contender: Contender };

/** Starts the servers that the service is compared with; they run until `resources` are disposed of. */
export async function startOthers(
  { dir, keyFile }: Bench,
  resources: AsyncDisposableStack,
): Promise<{ bare: Server; crud: Server }> {
  const start = (kind: string) =>
    startContender(['test/bench/contenders.ts', kind], { KEY_FILE: keyFile, DATABASE: join(dir, 'crud.db') });
  return {
    bare: await named(BARE, start('bare'), resources),
    crud: await named(CRUD, start('crud'), resources),
  };
}

/** Starts the service of this checkout and that of `--against`, each on a data directory of its own. */
export async function startServices(
  { keyFile, options: { against } }: Bench,
  resources: AsyncDisposableStack,
  dataDir: (root: string) => string | Promise<string>,
): Promise<Server[]> {
  const services: Server[] = [];
  for (const root of against === undefined ? [ROOT] : [ROOT, against]) {
    const starting = startService({ DATA_DIR: await dataDir(root), KEY_FILE: keyFile }, root);
    services.push(await named(root === ROOT ? SERVICE : nameOf(root), starting, resources));
  }
  return services;
}

/** The name of another checkout's service. */
export function nameOf(checkout: string): string {
  try {
    const args = ['-C', checkout, 'rev-parse', '--short', 'HEAD'];
    return `${SERVICE} at ${execFileSync('git', args, { encoding: 'utf8' }).trim()}`;
  } catch {
    return `${SERVICE} in ${basename(checkout)}`;
  }
}

/** A server that runs until `resources` are disposed of. */
export async function named(
  name: string,
  starting: Promise<Contender>,
  resources: AsyncDisposableStack,
): Promise<Server> {
  const contender = await starting;
  resources.defer(() => stopContender(contender));
  return { name, contender };
}
