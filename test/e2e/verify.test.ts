import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { typed } from '../commands/typed.ts';
import { startDouble } from '../copy/logs.ts';
import { hasTerminal, onTerminal } from '../support/interruptions.ts';
import { appendTo, logWith, plantOf, writeTo } from '../support/logs.ts';
import { MAIN, NODE, run, start } from '../support/process.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const VERIFY = [NODE, MAIN, 'verify'];

describe('npm run verify', () => {
  test('prints on stdout what is wrong, and ends with 1 and one line on stderr', async () => {
    const env = { DATA_DIR: logWith({ events: 3 }) };
    appendTo(env.DATA_DIR, { ...plantOf('alice', 4, ''), data: { name: 5 } });
    const ended = await run({ command: VERIFY, env });
    expect(ended).toEqual({ ...(await typed(['verify'], env)), signal: null });
    expect(ended).toMatchObject({ code: 1, stderr: '1 fault: the log or its view is not as it has to be\n' });
    expect(ended.stdout).toMatch(/^ +position 4: its data is not that of a PlantCreated$/m);
  });

  test('finds nothing beside a server that goes on creating plants', async () => {
    const { dir, as } = await startService();
    let isOver = false;
    let created = 0;
    const posting = (async () => {
      for (; !isOver; created++) {
        expect((await as('alice').create(created, { name: `${created}` })).status).toBe(200);
        await pause(10); // the command needs the processor, too
      }
    })();
    await expect.poll(() => created).toBeGreaterThan(10);
    const ended = await run({ command: [...VERIFY, '--json'], env: { DATA_DIR: dir } });
    isOver = true;
    await posting;
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const { size, faultCount } = JSON.parse(ended.stdout);
    expect(faultCount).toBe(0);
    expect(size).toBeGreaterThan(10);
  });
});

describe('Ctrl-C', () => {
  /** Events of which the server gives the first 100 and then no more: a command cannot come to its end. */
  async function startHolding() {
    const double = await startDouble();
    writeTo(double, ...Array.from({ length: 1_000 }, (_, i) => plantOf('alice', i + 1, `plant ${i}`)));
    double.holdAfter(100);
    return { double, env: { DATA_DIR: tempDir(), EVENTSTOREDB_URL: double.url } };
  }

  test('ends verify without a word more, while it waits for the log', async () => {
    const { double, env } = await startHolding();
    const verifying = start({ command: VERIFY, env });
    await expect.poll(() => double.calls.subscribe).toBeGreaterThan(0);
    process.kill(verifying.pid, 'SIGINT');
    expect(await verifying.ended).toEqual({ code: null, signal: 'SIGINT' });
    expect([verifying.stdout(), verifying.stderr()]).toEqual(['', '']);
  });

  test.runIf(hasTerminal)('on a terminal ends the bar of verify, and verify with it', async () => {
    const { env } = await startHolding();
    const verifying = start({ command: onTerminal(VERIFY), env });
    await verifying.printed(/verifying .* events/);
    verifying.stdin.write('\x03');
    expect((await verifying.ended).code).toBe(128 + 2);
    expect(verifying.stdout()).not.toMatch(/root|^\s+at /m);
  });

  test.runIf(hasTerminal)('is not needed: a bar goes to the end, and the root comes after it', async () => {
    const env = { DATA_DIR: logWith({ events: 1_500 }) };
    const { code, stdout } = await run({ command: onTerminal(VERIFY), env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/verifying .*100% \| 1500 events.*^size +1500\r\n.*^faults +none\r\n$/ms);
  });
});
