import { expect, test } from 'vitest';
import { startHolding, VERIFY } from '../support/interruptedVerify.ts';
import { hasTerminal, onTerminal } from '../support/interruptions.ts';
import { logWith } from '../support/logs.ts';
import { run, start } from '../support/process.ts';

// Beside a server it is in backup.test.ts; stopped without a terminal, in test/faults.

test.runIf(hasTerminal)(
  'npm run verify completes its progress bar on a terminal before it prints the root',
  async () => {
    const env = { DATA_DIR: logWith({ events: 1_500 }) };
    const { code, stdout } = await run({ command: onTerminal(VERIFY), env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/verifying .*100% \| 1500 events.*^size +1500\r\n.*^problems +none\r\n$/ms);
  },
);

test.runIf(hasTerminal)('npm run verify ends its progress bar on Ctrl-C, and exits', async () => {
  const { env } = await startHolding();
  const verifying = start({ command: onTerminal(VERIFY), env });
  await verifying.printed(/verifying .* events/);
  verifying.stdin.write('\x03');
  expect((await verifying.ended).code).toBe(128 + 2);
  expect(verifying.stdout()).not.toMatch(/root|^\s+at /m);
});
