import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Results } from '../bench/results.ts';
import { NODE, ROOT, run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

const bench = (...args: string[]) => run({ command: [NODE, 'test/bench/bench.ts', ...args] });
const SHORT = ['--rounds', '1', '--seconds', '1', '--events', '1000'];

describe('npm run bench', () => {
  test('compares POST and GET with bare Fastify, CRUD, and another commit', async () => {
    const out = join(tempDir(), 'results.json');
    const { code, stdout } = await bench(...SHORT, '--only', 'post,get', '--against', ROOT, '--out', out);
    expect(code).toBe(0);
    expect(stdout).toContain('| POST: service / bare Fastify ');
    const { figures }: Pick<Results, 'figures'> = JSON.parse(readFileSync(out, 'utf8'));
    for (const { name, values } of figures) expect([name, values]).toEqual([name, [expect.any(Number)]]);
    const names = figures.map(({ name }) => name);
    for (const what of ['POST: service / CRUD', 'POST: longest stall of bare Fastify, ms'])
      expect(names).toContain(what);
    expect(names).toContainEqual(expect.stringMatching(/^GET of one user: service \/ service at \w+$/));
  });

  test('measures memory over time', async () => {
    const { code, stdout } = await bench('--memory', '10', '--out', join(tempDir(), 'results.json'));
    expect(code).toBe(0);
    expect(stdout).toMatch(/RSS in MiB, median of each tenth:( \d+){10}\n/);
  });

  test.each([
    [['--only', 'speed'], 'There is no part speed.'],
    [['--against', '/'], 'It has no src/main.ts.'],
    [['--rounds', '0'], 'It must be a whole number from 1.'],
    [['--only', 'post', '--svg', 'x.svg'], '--svg requires the part connections'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await bench(...args);
    expect(code).toBe(1);
    expect(stderr).toContain(message);
  });
});
