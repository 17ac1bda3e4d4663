import { expect, test } from 'vitest';
import { ROOT, run } from '../test/support/process.ts';

const bench = (...args: string[]) => run({ command: ['npm', 'run', '-s', 'bench', '--', ...args] });

test('npm run bench measures every part beside a reference and another checkout', async () => {
  const SHORT = ['--rounds', '1', '--seconds', '1', '--events', '1000', '--connections', '4'];
  const { code, stdout } = await bench(...SHORT, '--against', ROOT);
  expect(code).toBe(0);
  for (const part of ['post', 'get', 'replay', 'verify'])
    expect(stdout.match(RegExp(`'${part}' .*\\d.* to `, 'g'))).toHaveLength(2);
});

test('npm run bench -- scale measures a log that grows', async () => {
  const { code, stdout } = await bench('scale', '--events', '1000', '--users', '10', '--seconds', '1');
  expect(code).toBe(0);
  expect(stdout).toContain('| events | 100 | 500 | 1000 |');
  expect(stdout).not.toMatch(/NaN|undefined|Infinity/);
});
