import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { VIEWS } from '../../src/views.ts';
import { expectRefused, runCli } from '../support/cli.ts';
import { startServiceWithTree } from '../support/service.ts';

const NAMES = Object.keys(VIEWS).sort();
const FILES = [...Object.values(VIEWS).map(({ file }) => file(''))].sort();

const copyViews = (dir: string, DATA_DIR: string) => runCli(['copy-views', dir], { DATA_DIR });

test('an instance continues from the views of a running instance', async () => {
  const service = await startServiceWithTree();
  const alice = service.as('alice');
  const carol = service.as('carol', 'audit');
  for (let id = 1; id <= 3; id++) await alice.create(id, { name: `Fern ${id}` });
  await carol.request('/checkpoint');
  await service.close(); // saves both
  const again = await startServiceWithTree({ DATA_DIR: service.dir });
  const dir = join(tempDir(), 'views');
  const { code, stdout } = await copyViews(dir, service.dir);
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
  expect(readdirSync(dir).sort()).toEqual(FILES);
  await again.as('alice').create(4, { name: 'Fern 4' });
  await again.close();

  for (const name of ['log.db', 'key.json']) copyFileSync(join(service.dir, name), join(dir, name));
  const other = await startServiceWithTree({ DATA_DIR: dir });
  expect(await other.as('alice').list()).toHaveLength(4);
  expect(await (await other.as('carol', 'audit').request('/checkpoint')).text()).toContain('\n4\n');
  const caughtUp = other.log().filter(({ msg }) => msg === 'view caught up');
  expect(caughtUp.map(({ view, from, to }) => [view, from, to]).sort()).toEqual(
    NAMES.map((name) => [name, '3', '4']),
  );
  expect(other.log().filter(({ msg }) => msg === 'rebuilding view')).toEqual([]);
});

test.each<[string, (dir: string) => string, RegExp]>([
  ['an existing directory', (dir) => dir, /already exists/],
  ['an existing file', () => import.meta.filename, /already exists/],
  ['a missing parent', (dir) => join(dir, 'no', 'views'), /no such/],
])('%s is reported in one line', async (_, at, message) => {
  const place = tempDir();
  expectRefused(await copyViews(at(place), logWith({ events: 1 })), message);
});

test('views that do not exist, or are damaged, are not copied', async () => {
  const dir = logWith({ events: 1 });
  const place = tempDir();
  expectRefused(await copyViews(join(place, 'views'), dir), /^cannot copy .*view\.db: unable to open/);
  writeFileSync(join(dir, 'view.db'), Buffer.alloc(8_192, 0xff));
  expectRefused(await copyViews(join(place, 'views'), dir), /^cannot copy .*view\.db: .*not a database/);
  mkdirSync(join(place, 'other'));
  expect(readdirSync(place)).toEqual(['other']);
});
