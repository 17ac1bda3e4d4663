import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** An empty directory, removed after the test; with `afterAll`, after those of the file. */
export function tempDir(atEnd: (remove: () => void) => void = onTestFinished): string {
  const dir = mkdtempSync(join(tmpdir(), 'transparency-log-'));
  atEnd(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
