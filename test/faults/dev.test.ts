import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { createCheckout } from '../support/checkout.ts';
import { start } from '../support/process.ts';
import { startServer } from '../support/server.ts';
import { CTRL_C, hasTerminal, onTerminal } from '../support/terminal.ts';

test.runIf(hasTerminal)(
  'npm run dev restarts the service when a file changes, with human-readable logs',
  async () => {
    const dir = tempDir();
    createCheckout(dir);
    const dev = start({
      command: onTerminal(['npm', '--prefix', dir, 'run', 'dev']),
      env: { DATA_DIR: join(dir, 'data') },
    });
    await dev.printed(/INFO.*listening at/);
    const restarted = dev.printed(/Restarting/).then(() => true);
    // Node watches a file some time after it was loaded: it may not see the first change.
    do appendFileSync(join(dir, 'src/app.ts'), '\n');
    while (!(await Promise.race([restarted, pause(2_000, false)])));
    await dev.printed(/Restarting.*INFO.*listening at/s);
    dev.stdin.write(CTRL_C);
    expect(await dev.ended).toEqual({ code: 0, signal: null });
  },
);

test('npm run dev serves the audit page', async () => {
  const { url } = await startServer({ command: ['npm', 'run', 'dev'], env: { DOCS: 'on' } });
  expect((await fetch(`${url}/audit`)).status).toBe(200);
  expect((await fetch(`${url}/audit/page/main.ts`)).status).toBe(200);
});
