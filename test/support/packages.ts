import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './process.ts';

/** The names of the directories of the packages, without that of their tests. */
export const PACKAGES = readdirSync(join(ROOT, 'packages'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'testing')
  .map(({ name }) => name);

/** The example in the README of a package, and what it prints. */
export function readmeExample(name: string): { code: string; output: string } {
  const readme = readFileSync(join(ROOT, 'packages', name, 'README.md'), 'utf8');
  const [, code = '', output = ''] = /```js\n(.*?)```\n.*?```text\n(.*?)```/s.exec(readme) ?? [];
  return { code, output };
}
