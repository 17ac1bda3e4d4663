import { describe, expect, test } from 'vitest';
import { run } from '../support/process.ts';

describe('README.md', () => {
  test('mentions a benchmark that has --help', async () => {
    const { stdout, code } = await run({ command: ['npm', 'run', '-s', 'bench', '--', '--help'] });
    expect(code).toBe(0);
    expect(stdout).toContain('--rounds');
  });
});
