import { cpSync, globSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { NODE, ROOT, run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

/** Imports the files that it is given, and prints each import in this directory as JSON: the specifier, and whether it is found. */
const PRINT_IMPORTS = `
  import { registerHooks } from 'node:module';
  const here = new URL('.', import.meta.url).href;
  registerHooks({
    resolve(specifier, context, next) {
      const print = (isFound) => {
        if (context.parentURL?.startsWith(here)) console.log(JSON.stringify({ specifier, isFound }));
      };
      try {
        const found = next(specifier, context);
        print(true);
        return found;
      } catch (error) {
        print(false);
        throw error;
      }
    },
  });
  for (const file of process.argv.slice(2)) await import(file).catch(() => {}); // a thread's module fails outside of its thread
`;

test('the image has every module that the service imports', async () => {
  const dir = tempDir();
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const copied = [...dockerfile.matchAll(/^COPY --from=build \/app\/(\S+) /gm)].map(
    ([, name]) => name as string,
  );
  expect(copied).toContain('node_modules');
  for (const name of copied)
    if (name === 'node_modules') symlinkSync(join(ROOT, name), join(dir, name));
    else cpSync(join(ROOT, name), join(dir, name), { recursive: true });
  const files = globSync('{src,projections}/**/*.ts', { cwd: dir, exclude: ['src/main.ts'] });
  expect(files.length).toBeGreaterThan(50);

  const script = join(dir, 'printImports.mjs');
  writeFileSync(script, PRINT_IMPORTS);
  const { stdout } = await run({ command: [NODE, script, ...files.map((file) => join(dir, file))] });
  const imports = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { specifier: string; isFound: boolean });
  expect(imports.length).toBeGreaterThan(100);
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const isInstalled = (specifier: string): boolean =>
    /^(node:|\.|\/|file:)/.test(specifier) ||
    Object.keys(dependencies).some((name) => specifier === name || specifier.startsWith(`${name}/`));
  expect(imports.filter(({ specifier, isFound }) => !isFound || !isInstalled(specifier))).toEqual([]);
});
