import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';

// `npm run build`: writes dist/ of each package, which is what npm publishes: JavaScript and types by tsc, files that
// are no code, and the manifest with their paths. In a workflow of GitHub it has the repository, too, which provenance
// requires. The service itself needs no build.

const here = import.meta.dirname;
const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = process.env;
const packages = readdirSync(here, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => join(here, name))
  .filter((directory) => existsSync(join(directory, 'tsconfig.json'))); // not that of the tests

const tsc = join(here, '../node_modules/typescript/bin/tsc');
execFileSync(process.execPath, [tsc, '--build', ...packages], { stdio: 'inherit' });

for (const directory of packages) {
  const dist = join(directory, 'dist');
  const manifest = readFileSync(join(directory, 'package.json'), 'utf8');
  const published = JSON.parse(manifest, (_, value) => (typeof value === 'string' ? inDist(value) : value));
  if (GITHUB_REPOSITORY)
    published.repository = {
      type: 'git',
      url: `git+${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}.git`,
      directory: `packages/${basename(directory)}`,
    };
  writeFileSync(join(dist, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  cpSync(join(directory, 'src'), dist, { recursive: true, filter: (path) => extname(path) !== '.ts' });
  for (const file of [
    join(directory, 'README.md'),
    join(directory, 'SPECIFICATION.md'),
    join(here, '../LICENSE'),
  ])
    if (existsSync(file)) cpSync(file, join(dist, basename(file)));
}

/** Where a file of src/ is in dist/; other text as it is. */
function inDist(text: string): string {
  return text.replace(/^\.\/src\/(.*)$/, './$1').replace(/^(\.\/.*)\.ts$/, '$1.js');
}
