import { cpSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import type { TestProjectInlineConfiguration } from 'vitest/config';
import { parse } from 'yaml';
import vitestConfig from '../vitest.config.ts';
import { ROOT, run } from './support/process.ts';

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

test.each(globSync('.github/workflows/*.yml', { cwd: ROOT }))(
  '%s uses actions by their commit, and grants at first only reading',
  (file) => {
    const { permissions, jobs } = parse(read(file));
    expect(permissions).toEqual({ contents: 'read' });
    expect(Object.keys(jobs).length).toBeGreaterThan(0);
    const used = [...read(file).matchAll(/uses: (.*)$/gm)].map(([, action]) => action);
    for (const action of used) expect(action).toMatch(/^[\w/-]+@[\da-f]{40} # v\d+\.\d+\.\d+$/);
  },
);

test.each(globSync('{.github/ISSUE_TEMPLATE/*,observe/*,deploy/**/*}.yml', { cwd: ROOT }))(
  '%s is YAML',
  (file) => {
    expect(parse(read(file))).toEqual(expect.any(Object));
  },
);

test('Dependabot updates each lock file, and waits as long as npm does', () => {
  const { updates } = parse(read('.github/dependabot.yml'));
  const [, days] = /^min-release-age=(\d+)$/m.exec(read('.npmrc')) ?? [];
  for (const { cooldown } of updates) expect(cooldown).toEqual({ 'default-days': Number(days) });
  const locks = globSync('{.,bench,observe/tracing,test/*}/package-lock.json', { cwd: ROOT });
  const directories = locks.map((lock) => join('/', dirname(lock)));
  expect(updates[0].directories.toSorted()).toEqual(directories.sort());
});

test('a tag is released if all packages have its version, and CHANGELOG.md has it with a date', async () => {
  const dir = tempDir();
  for (const file of ['.ci', 'package.json', ...globSync('packages/*/package.json', { cwd: ROOT })])
    cpSync(join(ROOT, file), join(dir, file), { recursive: true });
  const { version } = JSON.parse(read('package.json'));
  const release = (tag: string, heading: string) => {
    writeFileSync(join(dir, 'CHANGELOG.md'), `# Changelog\n\n## ${heading}\n`);
    return run({ command: [join(dir, '.ci/released'), tag] });
  };
  expect(await release(`v${version}`, `${version} - 2026-12-01`)).toMatchObject({ code: 0, stderr: '' });
  expect(await release(`v${version}`, 'Unreleased')).toMatchObject({ code: 1 });
  const { code, stderr } = await release('v9.9.9', '9.9.9 - 2026-12-01');
  expect([code, stderr]).toEqual([1, 'package.json has not version 9.9.9\n']);
});

test('CHANGELOG.md dates each version but the first, which may be unreleased', () => {
  const [first, ...others] = read('CHANGELOG.md').match(/^## .*$/gm) ?? [];
  const released = /^## \d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$/;
  if (!first?.startsWith('## Unreleased')) expect(first).toMatch(released);
  expect(others).not.toEqual([]);
  for (const heading of others) expect(heading).toMatch(released);
});

test('.ci/run runs each test file once', () => {
  const { scripts } = JSON.parse(read('package.json'));
  const ran = [...read('.ci/run').matchAll(/^npm (?:run )?(test\S*)/gm)].map(
    ([, script = '']) => scripts[script],
  );
  const names = [...ran.join('\n').matchAll(/--project (\S+)/g)].map(([, name]) => name);
  const projects = vitestConfig.test?.projects as TestProjectInlineConfiguration[];
  expect(names.sort()).toEqual(projects.map(({ test }) => test?.name).sort());
  const find = (pattern: string | string[], exclude: string[] = []) =>
    globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules/**', ...exclude] });
  const files = projects.flatMap(({ test }) => find(test?.include ?? [], test?.exclude));
  expect(files.sort()).toEqual(find('**/*.test.ts').sort());
});
