import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

/** An empty directory for one test, removed after it. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** An empty directory for all tests of a file, removed after them. */
export function tempDirOfFile(): string {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
