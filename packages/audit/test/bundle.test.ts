import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { BUNDLE_DIR, BUNDLE_OPTIONS, BUNDLED, bundlePage } from '../page/build.ts';

test('the committed bundle is what esbuild makes of the sources: `npm run bundle` writes it', async () => {
  const bundle = await bundlePage();
  expect([...bundle.keys()].toSorted()).toEqual(['LICENSES.txt', 'page.js', 'style.css']);
  for (const [name, text] of bundle)
    expect(readFileSync(join(BUNDLE_DIR, name), 'utf8') === text, `${name} is up to date`).toBe(true);
});

test('the bundle has the licence of each package of others in it', async () => {
  const { metafile } = await build({ ...BUNDLE_OPTIONS, metafile: true });
  const inputs = Object.keys(metafile.inputs).filter((path) => path.includes('node_modules/'));
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  expect(new Set(names)).toEqual(new Set(BUNDLED));
});
