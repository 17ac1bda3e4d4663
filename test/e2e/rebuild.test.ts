import { statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { withoutProgress } from '../support/cli.ts';
import { REBUILD, rebuilt, viewIn } from '../support/interruptedRebuild.ts';
import { hasTerminal, onTerminal } from '../support/interruptions.ts';
import { logWith } from '../support/logs.ts';
import { run } from '../support/process.ts';

// Interrupted rebuilds are in test/faults.

describe('npm run rebuild', () => {
  test('prints its result on stderr and nothing on stdout, and creates a view with access for its owner only', async () => {
    const dir = logWith({ events: 4 });
    const ended = await run({ command: ['npm', 'run', '-s', 'rebuild'], env: { DATA_DIR: dir } });
    expect(withoutProgress(ended)).toEqual({ ...rebuilt(4), signal: null });
    expect(statSync(viewIn(dir)).mode & 0o777).toBe(0o600);
  });

  test.runIf(hasTerminal)('shows a progress bar with its rate and the time left on a terminal', async () => {
    const env = { DATA_DIR: logWith({ events: 2_000 }) };
    const { code, stdout } = await run({ command: onTerminal(REBUILD), env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/rebuilding .* events \| .* s left.*100% \| 2000 events \| \d+\/s \| 0 s left/s);
    expect(stdout).toMatch(/rebuilt the view \w+ from 2000 events\r\n$/);
  });
});
