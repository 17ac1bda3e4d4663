import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT } from './support/process.ts';

type Entry = {
  version: string;
  integrity?: string;
  resolved?: string;
  link?: true;
  inBundle?: true;
  hasInstallScript?: true;
};

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
/** What npm downloads: neither this project, nor its workspaces, which are directories here. */
const packagesOf = (dir: string) =>
  Object.fromEntries(
    Object.entries<Entry>(JSON.parse(read(join(dir, 'package-lock.json'))).packages).filter(
      ([path, { link }]) => !link && path.includes('node_modules/'),
    ),
  );
/** With the names of packages that have an install script. */
const LOCKS = {
  '.': ['cpu-features', 'esbuild', 'protobufjs', 'ssh2'], // they compile, or warn of version ranges
  'test/browser': [],
  'test/clients': ['@scarf/scarf', 'esbuild'], // they count installations, or make a start faster
  bench: [],
  'observe/tracing': [],
};

describe.each(Object.entries(LOCKS))('package-lock.json in %s', (dir, withScripts) => {
  const packages = packagesOf(dir);

  test('has the hash of every package and no address, so that npm ci accepts no other content, from any registry', () => {
    const downloaded = Object.entries(packages).filter(([, { inBundle }]) => !inBundle); // else in another's archive
    expect(downloaded.length).toBeGreaterThan(0);
    for (const [path, { integrity }] of downloaded)
      expect([path, integrity]).toEqual([path, expect.stringMatching(/^sha512-[\w+/]{86}==$/)]);
    const withAddress = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
    expect(withAddress.map(([path]) => path)).toEqual([]);
  });

  test('has only install scripts that are known not to be needed, since npm runs none', () => {
    expect(read(join(dir, '.npmrc'))).toBe(read('.npmrc'));
    expect(read('.npmrc')).toMatch(/^ignore-scripts=true$/m);
    expect(read('.npmrc')).toMatch(/^min-release-age=\d+$/m);
    const withScript = Object.keys(packages).filter((path) => packages[path]?.hasInstallScript);
    expect(withScript.map((path) => path.split('node_modules/').at(-1)).sort()).toEqual(withScripts);
  });
});

test('package.json names npm, so that pnpm and Yarn, which do not read package-lock.json, refuse to install', () => {
  expect(JSON.parse(read('package.json')).packageManager).toMatch(/^npm@\d+\.\d+\.\d+$/);
});

test('canonicalize, whose text is hashed, has one exact version in every package whose code names it', () => {
  const naming = globSync('packages/*/{src,test}/**/*.ts', { cwd: ROOT }).filter((file) =>
    read(file).includes("'canonicalize'"),
  );
  const directories = new Set(naming.map((file) => file.split('/', 2).join('/')));
  expect(directories).toEqual(new Set(['packages/transparency-log']));
  const versions = ['.', ...directories].map(
    (dir) => JSON.parse(read(join(dir, 'package.json'))).dependencies.canonicalize,
  );
  expect(versions[0]).toMatch(/^\d+\.\d+\.\d+$/);
  expect(new Set(versions).size).toBe(1);
});

test("EventStoreDB's client calls no function of uuid that CVE-2026-41907 concerns: v3, v5, v6", () => {
  const files = globSync('node_modules/@eventstore/db-client/dist/**/*.js', { cwd: ROOT });
  const called = files.flatMap((file) =>
    [...read(file).matchAll(/\buuid_1\.(\w+)/g)].map(([, name]) => name),
  );
  expect(new Set(called)).toEqual(new Set(['stringify', 'v4']));
});
