import { once } from 'node:events';
import { expect, test } from 'vitest';
import { startHolding, VERIFY } from '../support/interruptedVerify.ts';
import { MAIN, NODE, start } from '../support/process.ts';

/** The verifier key of another log. */
const VKEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';

test('npm run verify is stopped by SIGINT without further output while it waits for the log', async () => {
  const { fake, env } = await startHolding();
  const verifying = start({ command: VERIFY, env });
  await expect.poll(() => fake.calls.read).toBeGreaterThan(5);
  process.kill(verifying.pid, 'SIGINT');
  expect(await verifying.ended).toEqual({ code: null, signal: 'SIGINT' });
  expect([verifying.stdout(), verifying.stderr()]).toEqual(['', '']);
});

test('npm run check-proof is stopped by SIGINT while it waits for its input', async () => {
  const checking = start({ command: [NODE, MAIN, 'check-proof', '--key', VKEY] });
  checking.stdin.write(' '.repeat(1024 * 1024));
  await once(checking.stdin, 'drain'); // so it is reading
  process.kill(checking.pid, 'SIGINT');
  expect(await checking.ended).toEqual({ code: null, signal: 'SIGINT' });
  expect([checking.stdout(), checking.stderr()]).toEqual(['', '']);
});
