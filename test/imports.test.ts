import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { PACKAGES } from './support/packages.ts';
import { ROOT } from './support/process.ts';

// The linter refuses every import that biome.json does not allow.

const FORBIDDEN = [
  ['packages/http/src/x.ts', '../../event-log/src/index.ts'],
  ['packages/http/src/a/x.ts', '../../../../src/service.ts'],
  ['packages/http/src/a/b/x.ts', '../../../test/x.ts'],
  ['packages/http/src/x.ts', '@event-sourced/event-log'],
  ['packages/http/src/x.ts', 'pino'],
  ['packages/event-log/src/x.ts', '@event-sourced/transparency-log'],
  ['packages/transparency-log/src/x.ts', '@event-sourced/http'],
  ['src/plants/x.ts', '@event-sourced/http'],
  ['src/plants/x.ts', '../config.ts'],
  ['src/plants/x.ts', '../../projections/plantsByUser.ts'],
  ['projections/x.ts', '../src/config.ts'],
  ['projections/x.ts', '@event-sourced/transparency-log'],
  ['src/cli/x.ts', '../plants/events.ts'],
  ['src/cli/x.ts', '@event-sourced/http'],
  ['src/x.ts', './cli/main.ts'],
  ['src/x.ts', '../packages/http/src/index.ts'],
] as const;
const ALLOWED = [
  ['packages/http/src/a/x.ts', '../y.ts'],
  ['packages/http/src/x.ts', 'fastify'],
  ['packages/http/src/x.ts', 'node:fs'],
  ['src/plants/x.ts', '@event-sourced/event-log/views'],
  ['projections/x.ts', '../src/plants/events.ts'],
  ['src/cli/x.ts', '../config.ts'],
  ['src/x.ts', './plants/events.ts'],
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
    return diagnostics.map(({ location }) => JSON.stringify(location.path));
  };
  expect(refused(FORBIDDEN)).toHaveLength(FORBIDDEN.length);
  expect(refused(ALLOWED)).toEqual([]);
});

/** The room of a source file: its package, its directory in src, or projections. */
function roomOf(file: string): string {
  const [top, name, third] = file.split('/');
  if (top === 'packages') return name as string;
  return top === 'src' && third ? `src/${name}` : (top as string);
}

test('rooms, floors and arrows of the import graph', () => {
  const arrows = new Map<string, Set<string>>();
  for (const file of globSync(['src/**/*.{ts,js}', 'projections/**/*.ts', 'packages/*/src/**/*.ts'], {
    cwd: ROOT,
  })) {
    const from = roomOf(file);
    const targets = arrows.get(from) ?? new Set();
    arrows.set(from, targets);
    const text = readFileSync(join(ROOT, file), 'utf8');
    for (const [, specifier = ''] of text.matchAll(/(?:from|import\(|^import) ?'([^']+)'/gm)) {
      const ours = /^@event-sourced\/([^/]+)/.exec(specifier)?.[1];
      const to =
        ours ??
        (specifier.startsWith('.') ? roomOf(normalize(relative('.', join(dirname(file), specifier)))) : from);
      if (to !== from) targets.add(to);
    }
  }
  const floor = (room: string, path: string[] = []): number => {
    expect(path).not.toContain(room); // no cycle
    return 1 + Math.max(0, ...[...(arrows.get(room) ?? [])].map((to) => floor(to, [...path, room])));
  };
  const rooms = [...arrows.keys()];
  expect(rooms.length).toBeLessThanOrEqual(8);
  expect(Math.max(...rooms.map((room) => floor(room)))).toBeLessThanOrEqual(5);
  expect([...arrows.values()].reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(14);
});

test('packages know nothing of plants', () => {
  const files = globSync(`packages/{${PACKAGES}}/src/**/*.{ts,html,css}`, { cwd: ROOT });
  expect(files.filter((file) => /plant/i.test(readFileSync(join(ROOT, file), 'utf8')))).toEqual([]);
});
