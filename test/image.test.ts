import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './support/process.ts';

/** What a module imports, statically or not, or starts as a thread. */
const IMPORTS = /(?:^import |^(?:import|export|\}).* from |\bimport\(|\bnew URL\()'([^']+)'/gm;

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');
const copied = [...read('Dockerfile').matchAll(/^COPY --from=build \/app\/(\S+) /gm)].map(([, name]) => name);

test('the image has every module that the service and its packages import', () => {
  expect(copied).toContain('node_modules');
  const { dependencies }: { dependencies: object } = JSON.parse(read('package.json'));
  const isInImage = (file: string, specifier: string): boolean => {
    if (specifier.startsWith('node:') || specifier === 'audit:entityType') return true;
    if (!specifier.startsWith('.'))
      return Object.keys(dependencies).some((name) => specifier === name || specifier.startsWith(`${name}/`));
    const path = join(dirname(file), specifier);
    return copied.includes(path.split('/')[0]) && existsSync(join(ROOT, path));
  };
  const files = globSync('{src,projections,packages/*/src}/**/*.{js,ts}', { cwd: ROOT }).filter(
    (file) => !file.includes('/testing/') && !file.endsWith('.d.ts'),
  );
  const imports = files.flatMap((file) =>
    [...read(file).matchAll(IMPORTS)].map(([, specifier = '']) => ({ file, specifier })),
  );
  expect(imports.length).toBeGreaterThan(500);
  expect(imports.filter(({ file, specifier }) => !isInImage(file, specifier))).toEqual([]);
});
