import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type BuildOptions, build } from 'esbuild';

// Bundles the page into one script and one style sheet, which are committed: the service needs no build.
// `npm run bundle` writes them; `npm run dev` does it after each change.

const HERE = import.meta.dirname;
export const BUNDLE_DIR = join(HERE, '../src/page');

export const BUNDLE_OPTIONS = {
  absWorkingDir: HERE,
  entryPoints: { page: 'main.tsx', style: 'style/style.css' },
  outdir: BUNDLE_DIR,
  bundle: true,
  minify: true,
  format: 'esm',
  platform: 'browser',
  target: ['chrome140', 'firefox135', 'safari18.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none',
  write: false,
} satisfies BuildOptions;

/** Packages of others that the script has a copy of. */
export const BUNDLED = ['preact', '@noble/hashes', 'canonicalize'];

/** The files of the bundle, by name: a script, a style sheet, and licences, which are not served. */
export async function bundlePage(): Promise<Map<string, string>> {
  const { outputFiles } = await build(BUNDLE_OPTIONS);
  const files = outputFiles.map(({ path, text }): [string, string] => [basename(path), text]);
  const modules = join(HERE, '../../../node_modules');
  const licences = BUNDLED.map(
    (name) => `${name}\n\n${readFileSync(join(modules, name, 'LICENSE'), 'utf8')}`,
  );
  return new Map([...files, ['LICENSES.txt', licences.join('\n')]]);
}

if (import.meta.main) {
  mkdirSync(BUNDLE_DIR, { recursive: true });
  for (const [name, text] of await bundlePage()) writeFileSync(join(BUNDLE_DIR, name), text);
}
