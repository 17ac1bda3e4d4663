import { statSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { expect, test } from 'vitest';
import { MAIN, NODE, run } from '../support/process.ts';
import { hasTerminal, onTerminal } from '../support/terminal.ts';

// Interrupted rebuilds are in test/faults.

test.runIf(hasTerminal)(
  'npm run rebuild shows a progress bar with its rate and the time left on a terminal, and creates a view with access for its owner only',
  async () => {
    const DATA_DIR = logWith({ events: 2_000 });
    const { code, stdout } = await run({ command: onTerminal([NODE, MAIN, 'rebuild']), env: { DATA_DIR } });
    expect(code).toBe(0);
    expect(stdout).toMatch(/rebuilding .* events \| .* s left.*100% \| 2000 events \| \d+\/s \| 0 s left/s);
    expect(stdout).toMatch(/rebuilt the view \w+ from 2000 events\r\n$/);
    expect(statSync(join(DATA_DIR, 'view.db')).mode & 0o777).toBe(0o600);
  },
);
