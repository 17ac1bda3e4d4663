import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, expect, test } from 'vitest';
import { succeeded } from '../support/cli.ts';
import { NODE, ROOT, run, start } from '../support/process.ts';
import { client } from '../support/service.ts';

// Applies each block of docs/extending.md, as it stands there, to a copy of the checkout.

/** A block, after the line that says where it belongs. */
const BLOCK =
  /^(?:New file `(?<created>[^`]+)`|In \[(?<changed>[^\]]+)\]\(\S+\), (?<where>before|after|instead of) `(?<line>[^\n]+)`):\n\n```\w+\n(?<code>.*?)\n```$/gms;

const [, ...SECTIONS] = readFileSync(join(ROOT, 'docs/extending.md'), 'utf8').split(/^## /m);
const RECIPES = new Map(
  SECTIONS.map((section) => {
    const steps = [...section.matchAll(BLOCK)].map(({ groups = {} }) => groups);
    expect(steps).toHaveLength((section.match(/^```/gm) ?? []).length / 2);
    return [section.split('\n', 1)[0], steps];
  }),
);

test.each([
  ['An event with its command', 5, 110],
  ['An event that changes a plant', 6, 115],
  ['A view', 3, 80],
  ['A command of the command line', 3, 40],
])('%s: at most %i files and %i lines', (title, files, lines) => {
  const steps = RECIPES.get(title) ?? [];
  expect(steps.length).toBeGreaterThan(2);
  expect(new Set(steps.map(({ created, changed }) => created ?? changed)).size).toBeLessThanOrEqual(files);
  expect(steps.flatMap(({ code = '' }) => code.split('\n')).length).toBeLessThanOrEqual(lines);
});

const dir = tempDir(afterAll);

/** The files of git, and the installed packages; the workspace's own are links into the copy. */
function copyCheckout(): void {
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  for (const file of execFileSync('git', listed, { cwd: ROOT, encoding: 'utf8' }).split('\0'))
    if (file && existsSync(join(ROOT, file))) cpSync(join(ROOT, file), join(dir, file));
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    const [from, to] = [join(ROOT, 'node_modules', name), join(dir, 'node_modules', name)];
    if (['.bin', '.package-lock.json', '@event-sourced'].includes(name))
      cpSync(from, to, { recursive: true, verbatimSymlinks: true });
    else if (!name.startsWith('.')) symlinkSync(from, to);
  }
}

/** @throws if the new file exists, or the quoted line is not exactly one line of the file */
function apply({ created, changed = '', where, line, code = '' }: Record<string, string>): void {
  if (created) {
    writeFileSync(join(dir, created), `${code}\n`, { flag: 'wx' });
    return;
  }
  const file = join(dir, changed);
  const lines = readFileSync(file, 'utf8').split('\n');
  const [place = -1, ...others] = lines.flatMap((text, i) => (text.trim() === line ? [i] : []));
  expect([line, place >= 0, others]).toEqual([line, true, []]);
  lines.splice(where === 'after' ? place + 1 : place, where === 'instead of' ? 1 : 0, ...code.split('\n'));
  writeFileSync(file, lines.join('\n'));
}

async function expectSuccess(...command: string[]): Promise<void> {
  const { code, stdout, stderr } = await run({ cwd: dir, command });
  expect(code, stdout + stderr).toBe(0);
}

test('every recipe, applied as it stands, passes types, lint and tests, and works', async () => {
  copyCheckout();
  const { cases = [], others = [] } = Object.groupBy([...RECIPES.values()].flat(), ({ code = '' }) =>
    /^\s*case '/.test(code) ? 'cases' : 'others',
  );
  for (const step of others) apply(step);
  const { stdout: errors } = await run({ cwd: dir, command: ['npm', 'run', '-s', 'types'] });
  for (const file of ['src/plants/plant.ts', 'projections/plantsByUser.ts'])
    expect(errors).toContain(`${file}(`);
  for (const step of cases) apply(step);

  await expectSuccess('npm', 'run', '-s', 'types');
  await expectSuccess('npm', 'run', '-s', 'lint');

  const DATA_DIR = join(dir, 'data');
  const main = join(dir, 'src/cli/main.ts');
  const url = await start({
    cwd: dir,
    env: { DATA_DIR, MERKLE_TREE: 'on' },
    command: [NODE, main],
  }).listening();
  const as = client(url, DATA_DIR);
  const water = (millilitres: number, user = 'alice') => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ at: '2026-03-01T12:00:00Z', millilitres });
    return as(user).request('/plants/1/waterings', { method: 'POST', headers, body });
  };
  const lastWatering = () => as('alice').request('/plants/1/last-watering');
  await as('alice').create(1, { name: 'Fern' });
  expect((await lastWatering()).status).toBe(404);
  for (const millilitres of [100, 250, 250]) expect((await water(millilitres)).status).toBe(200);
  expect((await water(0)).status).toBe(400);
  expect((await water(100, 'bob')).status).toBe(404);
  expect(await (await lastWatering()).json()).toEqual({ at: '2026-03-01T12:00:00Z', millilitres: 250 });

  const position = (await as('alice').get()).headers.get('log-position');
  const rename = (name: string, user = 'alice') => {
    const headers = { 'content-type': 'application/json' };
    return as(user).request('/plants/1/name', { method: 'PUT', headers, body: JSON.stringify({ name }) });
  };
  for (const name of ['Oak', 'Moss', 'Moss']) expect((await rename(name)).status).toBe(200);
  expect((await rename('Moss', 'bob')).status).toBe(404);
  expect(await as('alice').list()).toEqual([{ name: 'Moss', formerName: 'Oak' }]);
  const since = await as('alice').get(`?after=${position}`);
  expect([since.status, await since.json()]).toEqual([200, []]);
  const count = await run({ cwd: dir, env: { DATA_DIR }, command: [NODE, main, 'count'] });
  expect(succeeded(count)).toBe('5\n');

  const body = JSON.stringify({ user: 'alice' });
  const erase = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  const erased = await as('dana', 'erase').request('/erasures', erase);
  expect(await erased.json()).toMatchObject({ events: 5 });
  expect(await as('alice').list()).toEqual([]);
  expect((await lastWatering()).status).toBe(404);
  await expect
    .poll(() => readFileSync(join(DATA_DIR, 'lastWatered.db')).includes('alice'), { timeout: 300_000 })
    .toBe(false);

  const vitest = [NODE, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'main', '--project', 'e2e'];
  await expectSuccess(...vitest, 'test/api/openapi.test.ts', '-u');
  await expectSuccess(...vitest);
});
