import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { START } from '../../packages/event-log/src/eventStore.ts';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { MerkleTreeView } from '../../packages/transparency-log/src/view/treeView.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { runCli } from '../support/cli.ts';
import { created } from '../support/created.ts';
import { damageFirstRows, damagePage } from '../support/damage.ts';
import { checkpointOf, type Plant, startService, startServiceWithTree } from '../support/service.ts';

const NONE = new Set<string>();

test('a service with a damaged view rebuilds it with a warning, and lists all plants or is 503', async () => {
  const names = Array.from({ length: 600 }, (_, i) => `plant ${i + 1}`);
  const dir = logWith({ events: names.length, user: "'alice'" });
  const undamaged = await startService({ DATA_DIR: dir });
  expect(await undamaged.as('alice').list()).toHaveLength(names.length);
  await undamaged.close();
  damageFirstRows(join(dir, 'view.db'), 'plants');
  const { as, log } = await startService({ DATA_DIR: dir });
  const listed = async (): Promise<string[] | undefined> => {
    const response = await as('alice').get();
    const body = await response.json();
    if (response.status === 200) return (body as Plant[]).map(({ name }) => name);
    expect(response.status).toBe(503);
    expect(body).toMatchObject({ error: 50302 });
    return undefined;
  };
  for (let rebuilt = false; !rebuilt; rebuilt = log().some(({ msg }) => msg === 'view caught up'))
    expect([undefined, names]).toContainEqual(await listed());
  expect(await listed()).toEqual(names);
  expect(log().filter(({ msg }) => msg === 'rebuilding view')).toMatchObject([
    { level: 40, view: 'plantsByUser', reason: 'database disk image is malformed' },
  ]);
});

test.each([['', '-wal', '-shm'], ['']])(
  'a service whose view and tree were removed while it was stopped rebuilds both: %j',
  async (...parts) => {
    const dir = logWith({ events: 600, user: "'alice'" });
    const first = await startServiceWithTree({ DATA_DIR: dir });
    expect(await first.as('alice').list()).toHaveLength(600);
    const note = await checkpointOf(600, first.as('carol', 'audit'));
    // The files beside the databases are there only after a kill.
    const copied = tempDir();
    cpSync(dir, copied, { recursive: true });
    for (const name of ['view.db', 'merkleTree.db'])
      for (const part of parts) rmSync(join(copied, `${name}${part}`), { force: true });
    const next = await startServiceWithTree({ DATA_DIR: copied });
    expect(await next.as('alice').list()).toHaveLength(600);
    expect(await checkpointOf(600, next.as('carol', 'audit'))).toBe(note);
    await next.close();
    expect(await runCli(['verify'], { DATA_DIR: copied })).toMatchObject({ code: 0 });
  },
);

test.each([
  ['plantsByUser', (file: string) => new PlantsByUser(file), ['bookmark', 'plants']],
  ['merkleTree', (file: string) => MerkleTreeView.open(file), ['bookmark', 'tiles', 'head']],
] as const)(
  'each table of %s may be damaged: the view is discarded when it is opened or read',
  (_, open, tables) => {
    for (const table of tables) {
      const file = join(tempDir(), 'view.db');
      const view = open(file);
      view.bind('m');
      view.apply([created(1, 'alice', 'Fern')], NONE);
      view.close();
      damagePage(file, table);
      const damaged = open(file);
      if (damaged instanceof PlantsByUser && table === 'plants')
        expect(() => damaged.readPage('alice', { after: START, upTo: 1n, limit: 9 })).toThrow(ViewBehind);
      expect([damaged.replaced, damaged.progress.position]).toEqual([expect.any(String), START]);
      damaged.close();
    }
  },
);
