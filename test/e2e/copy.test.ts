import { statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { withoutProgress } from '../support/cli.ts';
import { commandOf } from '../support/interruptedCopy.ts';
import { hasTerminal, onTerminal } from '../support/interruptions.ts';
import { logWith } from '../support/logs.ts';
import { run } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

// Interrupted copies are in test/faults.

describe('npm run copy', () => {
  test('prints the result on stdout, and creates a log with access for its owner only', async () => {
    const [from, to] = [logWith({ events: 20 }), join(tempDir(), 'new', 'data')];
    const command = ['npm', 'run', '-s', 'copy', '--', '--from', from, '--to', to];
    expect(withoutProgress(await run({ command }))).toEqual({
      code: 0,
      signal: null,
      stdout: 'copied 20 events: both logs have the same 20 events\n',
      stderr: '',
    });
    expect([to, join(to, 'log.db')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o600]);
  });

  test.runIf(hasTerminal)('shows progress bars on a terminal', async () => {
    const { code, stdout } = await run({
      command: onTerminal(commandOf(logWith({ events: 20 }), tempDir())),
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/copying .*100% \| 20 events.*comparing .*100% \| 20 events/s);
    expect(stdout).toContain('copied 20 events: both logs have the same 20 events');
  });
});
