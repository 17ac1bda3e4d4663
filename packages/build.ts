import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// `npm run build`: writes dist/ of each package, which is what npm publishes: JavaScript and types by tsc, and the
// manifest with paths that point to them. The service itself needs no build.

const here = import.meta.dirname;
const packages = readdirSync(here, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => join(here, name));

const tsc = join(here, '../node_modules/typescript/bin/tsc');
execFileSync(process.execPath, [tsc, '--build', ...packages], { stdio: 'inherit' });

for (const directory of packages) {
  const manifest = readFileSync(join(directory, 'package.json'), 'utf8');
  const dist = join(directory, 'dist');
  writeFileSync(
    join(dist, 'package.json'),
    JSON.stringify(JSON.parse(manifest, built), null, 2).replaceAll('"./src/', '"./'),
  );
  cpSync(join(directory, 'README.md'), join(dist, 'README.md'));
  cpSync(join(here, '../LICENSE'), join(dist, 'LICENSE'));
}

/** `./src/x.ts` as it is in dist/: JavaScript with its types. */
function built(_key: string, value: unknown): unknown {
  if (typeof value !== 'string' || !value.startsWith('./src/') || !value.endsWith('.ts')) return value;
  const path = value.slice('./src/'.length, -'.ts'.length);
  return { types: `./${path}.d.ts`, default: `./${path}.js` };
}
