import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { MAX_IN_FLIGHT } from '../packages/audit/src/limits.ts';
import { SETTINGS } from '../src/config.ts';
import { API_ERRORS, MAX_LISTS_IN_FLIGHT } from '../src/errors.ts';
import { anchorsOf } from './support/markdown.ts';
import { ROOT } from './support/process.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const OPERATIONS = textOf('docs/operations.md');
const shellBlocks = [...textOf('README.md').matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block);

test('README.md starts with the two commands that CI runs', () => {
  expect(shellBlocks[0]).toBe('npm ci && npm start\n');
  expect(shellBlocks.at(-1)).toBe('npm ci && npm test\n');
  const ci = textOf('.ci/run');
  expect(ci).toContain('npm ci');
  expect(ci).toContain('npm test');
});

test('docs/dependencies.md gives a reason for every dependency', () => {
  const packages = globSync('{.,packages/*,test/{browser,clients},bench}/package.json', { cwd: ROOT });
  const all = packages.flatMap((file) => {
    const found = JSON.parse(textOf(file));
    return [found.dependencies, found.peerDependencies, found.optionalDependencies, found.devDependencies];
  });
  const names = all.flatMap((section) => Object.keys(section ?? {}));
  const cells = [...textOf('docs/dependencies.md').matchAll(/^\|.*(?=\|[^|]*\|$)/gm)].join();
  const reasons = new Set(cells.split(/[|,() ]+/));
  for (const name of names.filter((one) => !one.startsWith('@event-sourced/')))
    expect(reasons).toContain(name.startsWith('@types/') ? '@types/*' : name);
});

test('docs/errors.md lists exactly the error codes', () => {
  const codes = [...textOf('docs/errors.md').matchAll(/^\| (\d{5}) \|/gm)].map(([, code]) => Number(code));
  expect(codes).toEqual([...new Set(Object.values(API_ERRORS).map(({ code }) => code))].sort());
});

test.each(Object.entries({ lists: MAX_LISTS_IN_FLIGHT, ...MAX_IN_FLIGHT }))(
  'docs/operations.md has the limit of %s in flight',
  (kind, limit) => {
    const limits = OPERATIONS.slice(OPERATIONS.indexOf('## Limits per user'));
    const row = limits
      .split('\n')
      .find((line) => line.startsWith(`| ${kind.replace(' of events', ' of the newest events')} `));
    expect(row).toMatch(new RegExp(`\\) \\| ${limit}\\b`));
  },
);

test('docs/operations.md lists exactly the existing settings', () => {
  const table = OPERATIONS.slice(OPERATIONS.indexOf('## Settings'), OPERATIONS.indexOf('## Tokens'));
  const named = [...table.matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, name]) => name as string);
  expect(new Set(named)).toEqual(new Set(SETTINGS));
});

test.each(globSync('{*,docs/*,packages/*/*}.md', { cwd: ROOT }))(
  '%s links to existing files and headings, and mentions only existing commands',
  (file) => {
    const text = textOf(file);
    for (const [link, path, anchor] of text.matchAll(/\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)/g)) {
      const target = path ? join(ROOT, dirname(file), path) : join(ROOT, file);
      expect([link, existsSync(target)]).toEqual([link, true]);
      if (anchor) expect(anchorsOf(readFileSync(target, 'utf8'))).toContain(anchor);
    }
    const { scripts } = JSON.parse(textOf('package.json'));
    for (const [, script] of text.matchAll(/npm run (?:-s )?([a-z:-]+)/g))
      expect(Object.keys(scripts)).toContain(script);
  },
);

test('no command that is taught runs a package of the public registry, or npm instead', () => {
  const taught = [
    '*.md',
    'docs/**/*.{md,py}',
    'packages/*/*.md',
    '{src,packages/*/src,observe,deploy}/**/*.*',
  ];
  const files = globSync(taught, { cwd: ROOT, exclude: ['**/node_modules/**'] });
  expect(files.length).toBeGreaterThan(200);
  const asking = files.filter((file) =>
    // npx takes an option that follows the name for its own.
    /npx (?!--no )[\w- ]*(plant-store|transparency-log)|npx --no [a-z-]+ -/.test(textOf(file)),
  );
  expect(asking).toEqual([]);
});
