import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT, run, startServer } from './support/process.ts';
import { tempDir } from './support/tempDir.ts';

const README = readFileSync(join(ROOT, 'README.md'), 'utf8');
const SCRIPTS = (
  JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
).scripts;

const shellBlocks = [...README.matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block as string);

describe('README.md', () => {
  test('shows a plant created and listed on its first screen, and it works when pasted', async () => {
    const [, pasted = ''] = shellBlocks;
    const env = { DATA_DIR: tempDir() };
    const { url } = await startServer({ env });
    const script = pasted.replaceAll('http://127.0.0.1:3000', url);
    const { stdout } = await run({ env, command: ['sh', '-c', script] });
    const [, created, listed] = /The first `curl` answers `(.*?)`, the second `(.*?)`/.exec(README) ?? [];
    expect(stdout).toBe(`${created}${listed}`);
    expect(README.split('\n').findIndex((line) => line.startsWith('curl'))).toBeLessThan(25);
  });

  test('begins with the two commands that CI runs', () => {
    expect(shellBlocks[0]).toBe('npm ci && npm start\n');
    expect(shellBlocks[2]).toBe('npm ci && npm test\n');
    const ci = readFileSync(join(ROOT, '.ci/run'), 'utf8');
    expect(ci).toContain('npm ci');
    expect(ci).toContain('npm test');
  });

  test('names only commands that exist', () => {
    const named = [...README.matchAll(/npm run (?:-s )?([a-z:]+)/g)].map(([, script]) => script as string);
    expect(named.length).toBeGreaterThan(3);
    for (const script of named) expect(Object.keys(SCRIPTS)).toContain(script);
  });

  test('names every setting, and none that does not exist', () => {
    const config = readFileSync(join(ROOT, 'src/config.ts'), 'utf8');
    const known = [...config.matchAll(/^ {4}([A-Z_]+): Type/gm)].map(([, name]) => name as string);
    const table = README.slice(README.indexOf('| setting |'), README.indexOf('- **Tokens** are'));
    const named = [...table.matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, name]) => name as string);
    expect(new Set(named)).toEqual(new Set(known));
  });

  test('says of every dependency why it is there', () => {
    const { dependencies, devDependencies } = JSON.parse(
      readFileSync(join(ROOT, 'package.json'), 'utf8'),
    ) as Record<'dependencies' | 'devDependencies', Record<string, string>>;
    const why = README.slice(README.indexOf('## Why each dependency'));
    for (const name of [...Object.keys(dependencies), ...Object.keys(devDependencies)]) {
      expect(why).toMatch(name.startsWith('@types/') ? '@types/*' : name);
    }
  });

  test('names a benchmark that says how it is used', async () => {
    const { stdout, code } = await run({ command: ['npm', 'run', '-s', 'bench', '--', '--help'] });
    expect(code).toBe(0);
    expect(stdout).toContain('--rounds');
  });
});
