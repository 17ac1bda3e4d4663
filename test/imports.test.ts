import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { PACKAGES } from './support/packages.ts';
import { ROOT } from './support/process.ts';

// The linter refuses every import that biome.json does not allow.

const FORBIDDEN = [
  ['packages/http/src/x.ts', '@event-sourced/event-log'],
  ['packages/event-log/src/x.ts', 'fastify'],
  ['src/plants/x.ts', '../config.ts'],
  ['projections/x.ts', '@event-sourced/transparency-log'],
  ['src/cli/x.ts', '../../packages/http/src/index.ts'],
  ['src/x.ts', '@event-sourced/testing/logs'],
] as const;
const ALLOWED = [
  ['packages/http/src/x.ts', 'fastify'],
  ['src/cli/x.ts', '../plants/events.ts'],
] as const;

test('the linter refuses imports that are not allowed', () => {
  const dir = tempDir();
  cpSync(join(ROOT, 'biome.json'), join(dir, 'biome.json'));
  cpSync(join(ROOT, 'package.json'), join(dir, 'package.json'));
  for (const name of PACKAGES)
    cpSync(join(ROOT, 'packages', name, 'package.json'), join(dir, 'packages', name, 'package.json'));
  const refused = (cases: readonly (readonly [string, string])[]): string[] => {
    const files = cases.map(([file, specifier], i) => {
      const path = join(dir, file.replace('x.ts', `x${i}.ts`));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, `import x from '${specifier}';\nx();\n`);
      return path;
    });
    const biome = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');
    const args = ['lint', '--vcs-enabled=false', '--reporter=json', '--max-diagnostics=none', ...files];
    const { stdout } = spawnSync(process.execPath, [biome, ...args], { cwd: dir, encoding: 'utf8' });
    const { diagnostics } = JSON.parse(stdout) as { diagnostics: { location: { path: unknown } }[] };
    return [...new Set(diagnostics.map(({ location }) => JSON.stringify(location.path)))];
  };
  expect(refused(FORBIDDEN)).toHaveLength(FORBIDDEN.length);
  expect(refused(ALLOWED)).toEqual([]);
});

/** What a file imports: a directory of the project, or the name of a package. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const specifiers = [...text.matchAll(/(?:from|import\(|^import) ?'([^']+)'/gm)].map(
    ([, name = '']) => name,
  );
  return specifiers.map((name) => (name.startsWith('.') ? normalize(join(dirname(file), name)) : name));
}

const files = (pattern: string): string[] => globSync(pattern, { cwd: ROOT });

/** The room of a file, or of what is imported: a package, a directory in src, or projections. */
function roomOf(path: string): string {
  const [top = '', name = '', third] = path.replace('@event-sourced/', 'packages/').split('/');
  if (top === 'packages') return name;
  return top === 'src' && third ? `src/${name}` : top;
}

test('rooms import each other in one direction only', () => {
  const arrows = new Map<string, Set<string>>();
  for (const file of files('{src,projections,packages/*/src}/**/*.{ts,js}')) {
    const from = roomOf(file);
    arrows.set(from, (arrows.get(from) ?? new Set()).union(new Set(importsOf(file).map(roomOf))));
  }
  const visit = (room: string, path: string[]): void => {
    expect(path).not.toContain(room);
    for (const to of arrows.get(room) ?? []) if (to !== room) visit(to, [...path, room]);
  };
  for (const room of arrows.keys()) visit(room, []);
  expect(arrows.size).toBeGreaterThan(5);
});

test('tests of a package import neither the service nor its tests', () => {
  const importing = files('packages/*/test/**/*.ts').filter((file) =>
    importsOf(file).some((path) => /^(src|projections|test)\//.test(path)),
  );
  expect(importing).toEqual([]);
});

test('packages know nothing of plants', () => {
  const sources = files(`packages/{${PACKAGES}}/src/**/*.{ts,html,css}`);
  expect(sources.filter((file) => /plant/i.test(readFileSync(join(ROOT, file), 'utf8')))).toEqual([]);
});
