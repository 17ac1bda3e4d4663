import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { logWith } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli } from '../support/cli.ts';

const SECRET = 'Hush-7.3';
const UNAVAILABLE = `esdb://admin:${SECRET}@127.0.0.1:1?tls=false`;

describe('one line reports an EventStoreDB', () => {
  test.for(['replay', 'replay --follow --table', 'verify'])('that is unavailable: %s', async (command) => {
    stopClock();
    const [ended] = await untilSettled(runCli(command.split(' '), { EVENTSTOREDB_URL: UNAVAILABLE }));
    expectRefused(ended, /EventStoreDB is unavailable: /);
    expect(ended.stderr).not.toContain(SECRET);
  });

  test.for<[what: string, line: RegExp, from: () => string, to: () => string]>([
    ['source', /^the source is unavailable: /, () => UNAVAILABLE, tempDir],
    ['target', /^the target is unavailable: /, () => logWith({ events: 1 }), () => UNAVAILABLE],
  ])('that is unavailable as the %s of a copy', async ([, line, from, to]) => {
    const args = ['copy', '--from', from(), '--to', to()];
    stopClock();
    const [ended] = await untilSettled(runCli(args));
    expectRefused(ended, line);
    expect(ended.stderr).not.toContain(SECRET);
  });

  test('that denies access to a copy', async () => {
    const fake = await startFakeServer({ users: { admin: 'another' } });
    const url = fake.url.replace('//', `//admin:${SECRET}@`);
    const refused = await runCli(['copy', '--from', logWith({ events: 1 }), '--to', url]);
    expectRefused(refused, /^cannot use --to: the server refuses the user or the password/);
    expect(refused.stderr).not.toContain(SECRET);
  });
});
