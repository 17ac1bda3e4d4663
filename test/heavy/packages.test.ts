import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { beforeAll, expect, test } from 'vitest';
import { PACKAGES, readmeExample } from '../support/packages.ts';
import { ROOT } from '../support/process.ts';

// Each package alone: packed, installed into an empty directory, on each version of Node that it supports.

const run = (command: string, args: string[], cwd: string, given = {}): string =>
  execFileSync(command, args, {
    cwd,
    env: { ...process.env, ...given },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });

type Manifest = { engines: { node: string }; dependencies?: object; peerDependencies?: object };
const manifestOf = (name: string): Manifest =>
  JSON.parse(readFileSync(join(ROOT, 'packages', name, 'package.json'), 'utf8'));

const NODES = [22, 24, 26];
const NODE_PACKAGE = `node-${process.platform}-${process.arch}`;
const RUNTIME = `./node_modules/${NODE_PACKAGE}/bin/node`;
const cases = PACKAGES.flatMap((name) => {
  const [lowest] = manifestOf(name).engines.node.match(/\d+/) ?? [];
  return NODES.filter((node) => node >= Number(lowest)).map((node) => ({ name, node }));
});

let tarballs: Map<string, string>;

beforeAll(() => {
  const workflow = { GITHUB_SERVER_URL: 'https://git.example', GITHUB_REPOSITORY: 'owner/name' };
  run('npm', ['run', '-s', 'build'], ROOT, workflow);
  tarballs = new Map(
    PACKAGES.map((name) => {
      const dir = mkdtempSync(join(tmpdir(), 'packed-'));
      run('npm', ['pack', '--silent', '--pack-destination', dir, join(ROOT, 'packages', name, 'dist')], ROOT);
      return [name, join(dir, readdirSync(dir)[0] as string)];
    }),
  );
  return () => {
    for (const file of tarballs.values()) rmSync(dirname(file), { recursive: true });
  };
});

/** The tarballs of a package and of our packages that it requires. */
function required(name: string): string[] {
  const ours = Object.keys(manifestOf(name).dependencies ?? {}).filter((other) =>
    other.startsWith('@event-sourced/'),
  );
  return [...ours.flatMap((other) => required(other.split('/')[1] as string)), tarballs.get(name) as string];
}

function install(name: string, node: number): string {
  const dir = tempDir();
  writeFileSync(join(dir, 'package.json'), '{"private": true}');
  run('npm', ['install', '--silent', '--ignore-scripts', `${NODE_PACKAGE}@${node}`, ...required(name)], dir);
  return dir;
}

test.each(cases)('$name, installed alone, runs its example on Node $node', ({ name, node }) => {
  const dir = install(name, node);
  const { code, output } = readmeExample(name);
  writeFileSync(join(dir, 'example.mjs'), code);
  expect(run(RUNTIME, ['--version'], dir)).toMatch(new RegExp(`^v${node}\\.`));
  expect(run(RUNTIME, ['example.mjs'], dir)).toBe(output);
});

test('a package that a workflow has built names the repository, which provenance requires', () => {
  const file = join(ROOT, 'packages/tlog/dist/package.json');
  expect(JSON.parse(readFileSync(file, 'utf8')).repository).toEqual({
    type: 'git',
    url: 'git+https://git.example/owner/name.git',
    directory: 'packages/tlog',
  });
});

test('the auditor needs these tarballs only', () => {
  const dir = install('monitor', 24);
  const help = run(RUNTIME, ['node_modules/.bin/transparency-log', '--help'], dir);
  for (const command of ['monitor', 'check-proof']) expect(help).toContain(command);
  const installed = readdirSync(join(dir, 'node_modules')).filter((name) => !name.startsWith('.'));
  expect(installed).not.toContain('fastify');
  expect(readdirSync(join(dir, 'node_modules/@event-sourced'))).toEqual([
    ...['event-log', 'monitor', 'node', 'tlog', 'transparency-log'],
  ]);
});
