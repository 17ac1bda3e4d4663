import { describe, expect, test } from 'vitest';
import { run } from '../support/process.ts';

describe('README.md', () => {
  test('names a benchmark that says how it is used', async () => {
    const { stdout, code } = await run({ command: ['npm', 'run', '-s', 'bench', '--', '--help'] });
    expect(code).toBe(0);
    expect(stdout).toContain('--rounds');
  });
});
