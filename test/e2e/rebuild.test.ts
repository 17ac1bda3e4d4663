import { statSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { expect, test } from 'vitest';
import { MAIN, NODE, run } from '../support/process.ts';

// Interrupted rebuilds are in test/faults.

test('rebuild creates a view with access for its owner only', async () => {
  const DATA_DIR = logWith({ events: 2_000 });
  const { code, stderr } = await run({ command: [NODE, MAIN, 'rebuild'], env: { DATA_DIR } });
  expect(code).toBe(0);
  expect(stderr).toMatch(/rebuilt the view \w+ from 2000 events\n$/);
  expect(statSync(join(DATA_DIR, 'view.db')).mode & 0o777).toBe(0o600);
});
