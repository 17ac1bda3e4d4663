import { once } from 'node:events';
import { expect, test } from 'vitest';
import { MAIN, NODE, start } from '../support/process.ts';

/** The verifier key of another log. */
const VKEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';

test('npm run check-proof is stopped by SIGINT while it waits for its input', async () => {
  const checking = start({ command: [NODE, MAIN, 'check-proof', '--key', VKEY] });
  checking.stdin.write(' '.repeat(1024 * 1024));
  await once(checking.stdin, 'drain'); // so it is reading
  process.kill(checking.pid, 'SIGINT');
  expect(await checking.ended).toEqual({ code: null, signal: 'SIGINT' });
  expect([checking.stdout(), checking.stderr()]).toEqual(['', '']);
});
