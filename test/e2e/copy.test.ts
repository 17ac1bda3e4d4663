import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandOf } from '../support/interruptedCopy.ts';
import { hasTerminal, onTerminal } from '../support/interruptions.ts';
import { logWith } from '../support/logs.ts';
import { run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

// Interrupted copies are in test/faults.

test.runIf(hasTerminal)(
  'npm run copy shows progress bars on a terminal, and creates a log with access for its owner only',
  async () => {
    const [from, to] = [logWith({ events: 20 }), join(tempDir(), 'new', 'data')];
    const { code, stdout } = await run({ command: onTerminal(commandOf(from, to)) });
    expect(code).toBe(0);
    expect(stdout).toMatch(/copying .*100% \| 20 events.*comparing .*100% \| 20 events/s);
    expect(stdout).toContain('copied 20 events: both logs have the same 20 events');
    expect([to, join(to, 'log.db')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o600]);
  },
);
