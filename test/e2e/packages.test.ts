import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PACKAGES, readmeExample } from '../support/packages.ts';
import { ROOT } from '../support/process.ts';

test.each(PACKAGES)(
  'the README of %s has an example of at most 30 lines, which prints what it says',
  (name) => {
    const { code, output } = readmeExample(name);
    expect(code.trimEnd().split('\n').length).toBeLessThanOrEqual(30);
    const dir = mkdtempSync(join(ROOT, 'packages', name, 'test', 'example-')); // where its dependencies are found
    try {
      writeFileSync(join(dir, 'example.mjs'), code);
      const printed = execFileSync(process.execPath, ['example.mjs'], { cwd: dir, encoding: 'utf8' });
      expect(printed).toBe(output);
      expect(output).not.toBe('');
    } finally {
      rmSync(dir, { recursive: true });
    }
  },
);
