import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './support/process.ts';

/** What a module imports, statically or not, or starts as a thread. */
const IMPORTS = /(?:^import |^(?:import|export|\}).* from |\bimport\(|\bnew URL\()'([^']+)'/gm;

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');
const names = (file: string, pattern: RegExp): string[] =>
  [...read(file).matchAll(pattern)].flatMap(([, name = '']) => name.split(' '));
const copied = names('Dockerfile', /^COPY --from=build \/app\/(\S+) /gm);
/** What the first stage of the Dockerfile copies, and what .dockerignore lets it copy. */
const [given, allowed] = [names('Dockerfile', /^COPY (?!--)(.+) /gm), names('.dockerignore', /^!(.+)/gm)];

test('the image has every module and file that the service and its packages import or read by URL', () => {
  expect(copied).toContain('node_modules');
  const { dependencies }: { dependencies: object } = JSON.parse(read('package.json'));
  const isInImage = (file: string, specifier: string): boolean => {
    if (specifier.startsWith('node:')) return true;
    if (specifier.startsWith('#')) {
      const room = file.split('/', 2).join('/');
      const { imports } = JSON.parse(read(`${room}/package.json`));
      return Object.values<string>(imports[specifier]).every((to) => isInImage(`${room}/package.json`, to));
    }
    if (!specifier.startsWith('.'))
      return Object.keys(dependencies).some((name) => specifier === name || specifier.startsWith(`${name}/`));
    const path = join(dirname(file), specifier);
    const isIn = (names: string[]): boolean =>
      names.some((name) => path === name || path.startsWith(`${name}/`));
    return [copied, given, allowed].every(isIn) && existsSync(join(ROOT, path));
  };
  const files = globSync('{src,projections,packages/*/src}/**/*.{js,ts}', { cwd: ROOT }).filter(
    (file) =>
      !file.includes('/testing/') && !file.endsWith('.d.ts') && !file.startsWith('packages/audit/src/page/'), // the bundle imports nothing
  );
  const imports = files.flatMap((file) =>
    [...read(file).matchAll(IMPORTS)].map(([, specifier = '']) => ({ file, specifier })),
  );
  expect(imports.length).toBeGreaterThan(500);
  expect(imports.filter(({ file, specifier }) => !isInImage(file, specifier))).toEqual([]);
});
