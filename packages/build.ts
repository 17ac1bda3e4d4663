import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';

// `npm run build`: writes dist/ of each package, which is what npm publishes: JavaScript and types by tsc, files that
// are no code, and the manifest with their paths. The service itself needs no build.

const here = import.meta.dirname;
const packages = readdirSync(here, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => join(here, name));

const tsc = join(here, '../node_modules/typescript/bin/tsc');
execFileSync(process.execPath, [tsc, '--build', ...packages], { stdio: 'inherit' });

for (const directory of packages) {
  const dist = join(directory, 'dist');
  const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  const published = {
    ...manifest,
    exports: Object.fromEntries(
      Object.entries<string>(manifest.exports).map(([entry, path]) => [
        entry,
        { types: inDist(path, '.d.ts'), default: inDist(path, '.js') },
      ]),
    ),
    ...(manifest.bin && {
      bin: Object.fromEntries(
        Object.entries<string>(manifest.bin).map(([name, path]) => [name, inDist(path, '.js')]),
      ),
    }),
  };
  writeFileSync(join(dist, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  cpSync(join(directory, 'src'), dist, { recursive: true, filter: (path) => extname(path) !== '.ts' });
  for (const file of [
    join(directory, 'README.md'),
    join(directory, 'SPECIFICATION.md'),
    join(here, '../LICENSE'),
  ])
    if (existsSync(file)) cpSync(file, join(dist, file.slice(file.lastIndexOf('/') + 1)));
}

/** Where a source file is in dist/. */
function inDist(path: string, extension: string): string {
  return path.replace('./src/', './').replace(/\.ts$/, extension);
}
