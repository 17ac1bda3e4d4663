import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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

/** The files of the bundle, by name. */
export async function bundlePage(): Promise<Map<string, string>> {
  const { outputFiles } = await build(BUNDLE_OPTIONS);
  return new Map(outputFiles.map(({ path, text }) => [path.slice(BUNDLE_DIR.length + 1), text]));
}

if (import.meta.main) {
  mkdirSync(BUNDLE_DIR, { recursive: true });
  for (const [name, text] of await bundlePage()) writeFileSync(join(BUNDLE_DIR, name), text);
}
