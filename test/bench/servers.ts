import { join } from 'node:path';
import { type Contender, startContender, startService, stopContender } from './contender.ts';
import { BARE, CRUD } from './names.ts';
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

/** Starts the service of each checkout, on a data directory of its own. */
export async function startServices(
  { keyFile, services }: Bench,
  resources: AsyncDisposableStack,
  dataDir: (root: string) => string | Promise<string>,
): Promise<Server[]> {
  const servers: Server[] = [];
  for (const { name, root } of services) {
    const starting = startService({ DATA_DIR: await dataDir(root), KEY_FILE: keyFile }, root);
    servers.push(await named(name, starting, resources));
  }
  return servers;
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
