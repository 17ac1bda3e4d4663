import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './support/process.ts';

type Entry = { integrity?: string; resolved?: string; link?: true; inBundle?: true };

const { '': _project, ...packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  .packages as Record<string, Entry>;

test('package-lock.json has the hash of every package, so that npm ci accepts no other content', () => {
  // npm downloads neither a link, which is a directory here, nor what is in the archive of another package.
  const downloaded = Object.entries(packages).filter(([, { link, inBundle }]) => !link && !inBundle);
  expect(downloaded.length).toBeGreaterThan(0);
  const withoutHash = downloaded.filter(
    ([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''),
  );
  expect(withoutHash.map(([path]) => path)).toEqual([]);
});

test('package-lock.json has no addresses, so that npm ci works with any registry', () => {
  const withAddress = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
  expect(withAddress.map(([path]) => path)).toEqual([]);
});
