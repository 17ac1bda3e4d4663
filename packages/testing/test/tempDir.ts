import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** When what a test has set up is removed: `onTestFinished`, or `afterAll` for the tests of a file. */
export type AtEnd = (remove: () => void | Promise<void>) => void;

/** An empty directory for a test, or with `afterAll` for all tests of a file; removed afterwards. */
export function tempDir(atEnd: AtEnd = onTestFinished): string {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  atEnd(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
