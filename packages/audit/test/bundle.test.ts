import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BUNDLE_DIR, bundlePage } from '../page/build.ts';

test('the committed bundle is what esbuild makes of the sources: `npm run bundle` writes it', async () => {
  const bundle = await bundlePage();
  expect([...bundle.keys()].toSorted()).toEqual(['page.js', 'style.css']);
  for (const [name, text] of bundle)
    expect(readFileSync(join(BUNDLE_DIR, name), 'utf8') === text, `${name} is up to date`).toBe(true);
});
