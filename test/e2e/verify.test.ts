import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { hasTerminal, onTerminal } from '../support/interruptions.ts';
import { appendTo, logWith, plantOf, writeTo } from '../support/logs.ts';
import { MAIN, NODE, run, start } from '../support/process.ts';
import { startService } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const VERIFY = [NODE, MAIN, 'verify'];

describe('npm run verify', () => {
  test('prints the problems on stdout, and exits with 1 and one line on stderr', async () => {
    const env = { DATA_DIR: logWith({ events: 3 }) };
    appendTo(env.DATA_DIR, { ...plantOf('alice', 4, ''), data: { name: 5 } });
    const ended = await run({ command: VERIFY, env });
    expect(ended).toEqual({ ...(await runCli(['verify'], env)), signal: null });
    expect(ended).toMatchObject({ code: 1, stderr: 'verification failed: 1 problem\n' });
    expect(ended.stdout).toMatch(/^ +position 4: its data is not that of a PlantCreated$/m);
  });

  test('finds no problems beside a server that creates plants', async () => {
    const { dir, as } = await startService();
    let isOver = false;
    let created = 0;
    const posting = (async () => {
      for (; !isOver; created++) {
        expect((await as('alice').create(created, { name: `${created}` })).status).toBe(200);
        await pause(10); // leaves processor time to the command
      }
    })();
    await expect.poll(() => created).toBeGreaterThan(10);
    const ended = await run({ command: [...VERIFY, '--json'], env: { DATA_DIR: dir } });
    isOver = true;
    await posting;
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const { size, problemCount } = JSON.parse(ended.stdout);
    expect(problemCount).toBe(0);
    expect(size).toBeGreaterThan(10);
  });
});

describe('npm run verify on Ctrl-C', () => {
  /** A server that sends only the first page of its events, so that a command cannot complete. */
  async function startHolding() {
    const fake = await startFakeServer();
    writeTo(fake, ...Array.from({ length: 1_000 }, (_, i) => plantOf('alice', i + 1, `plant ${i}`)));
    fake.holdAfter(100);
    return { fake, env: { DATA_DIR: tempDir(), EVENTSTOREDB_URL: fake.url } };
  }

  test('exits without further output while it waits for the log', async () => {
    const { fake, env } = await startHolding();
    const verifying = start({ command: VERIFY, env });
    await expect.poll(() => fake.calls.read).toBeGreaterThan(5);
    process.kill(verifying.pid, 'SIGINT');
    expect(await verifying.ended).toEqual({ code: null, signal: 'SIGINT' });
    expect([verifying.stdout(), verifying.stderr()]).toEqual(['', '']);
  });

  test.runIf(hasTerminal)('ends its progress bar on a terminal, and exits', async () => {
    const { env } = await startHolding();
    const verifying = start({ command: onTerminal(VERIFY), env });
    await verifying.printed(/verifying .* events/);
    verifying.stdin.write('\x03');
    expect((await verifying.ended).code).toBe(128 + 2);
    expect(verifying.stdout()).not.toMatch(/root|^\s+at /m);
  });

  test.runIf(hasTerminal)(
    'is not needed: the progress bar completes before the root is printed',
    async () => {
      const env = { DATA_DIR: logWith({ events: 1_500 }) };
      const { code, stdout } = await run({ command: onTerminal(VERIFY), env });
      expect(code).toBe(0);
      expect(stdout).toMatch(/verifying .*100% \| 1500 events.*^size +1500\r\n.*^problems +none\r\n$/ms);
    },
  );
});
