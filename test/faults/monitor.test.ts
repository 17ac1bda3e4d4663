import { chmodSync, cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { alterLog, logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { entries, FakeLog, serve, toEntry, VERIFIER_KEY } from '../../packages/monitor/test/fakeLog.ts';
import { formatVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { auditorOf } from '../support/auditor.ts';
import { expectRefused, runCli } from '../support/cli.ts';
import { canMount, READER, smallDisk } from '../support/disk.ts';
import { NODE, run, start } from '../support/process.ts';
import { startServiceWithTree } from '../support/service.ts';

describe('an auditor of a service', () => {
  test('notices that a backup was restored', async () => {
    const first = await startServiceWithTree({ DATA_DIR: logWith({ events: 3 }) });
    const { monitor, monitored } = await auditorOf(first);
    const backup = join(tempDir(), 'log.db');
    expect((await runCli(['backup', backup], { DATA_DIR: first.dir })).code).toBe(0);
    await first.as('alice').create(4, { name: 'Ivy' });
    await monitored(4);
    const DATA_DIR = tempDir();
    cpSync(backup, join(DATA_DIR, 'log.db'));
    for (const key of ['key.json', 'log-key.json']) cpSync(join(first.dir, key), join(DATA_DIR, key));
    const restored = await startServiceWithTree({ DATA_DIR });
    await (await auditorOf(restored)).monitored(3);
    stopClock();
    const [refused] = await untilSettled(monitor(restored.url));
    expectRefused(
      refused,
      /^ALARM: rollback: the log has signed 4 events, and now signs 3, which are the first of them; the evidence is in /,
    );
  });

  test('notices an event that was altered in the log of a running service', async () => {
    const service = await startServiceWithTree({ DATA_DIR: logWith({ events: 3 }) });
    const { monitor, monitored } = await auditorOf(service);
    await monitored(3);
    await service.as('alice').create(4, { name: 'Ivy' });
    const other = await auditorOf(service);
    await other.monitored(4);
    alterLog(service.dir, "UPDATE events SET data = replace(data, 'Ivy', 'Elm') WHERE position = 4");
    expect(await monitor()).toMatchObject({ code: 0 }); // the tree has what was signed
    expectRefused(
      await monitor(service.url, '--events'),
      /^ALARM: mismatch: in \/events, the event at index 3 has the entry [\da-f]{64}; its entry is /,
    );
  });

  test('raises no alarm beside erasures, and counts them', async () => {
    const service = await startServiceWithTree();
    const users = Array.from({ length: 12 }, (_, i) => `user${i}`);
    for (const user of users)
      for (let id = 1; id <= 3; id++) await service.as(user).create(id, { name: 'Fern' });
    const [first, other] = [await auditorOf(service), await auditorOf(service)];
    await first.monitored(36);
    let running = true;
    const watching = (async () => {
      while (running)
        expect(await other.monitor(service.url, '--events', '--all')).toMatchObject({ code: 0, stderr: '' });
    })();
    for (const user of users) {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ user });
      const response = await service
        .as('dana', 'erase')
        .request('/erasures', { method: 'POST', headers, body });
      expect(response.status).toBe(200);
      expect(await first.monitor(service.url, '--events')).toMatchObject({ code: 0, stderr: '' });
    }
    running = false;
    await watching;
    await first.monitored(48);
    expect((await first.monitor(service.url, '--events')).stdout).toMatch(
      /, erased: 36 \(12 records\), never read: \d+\n$/,
    );
  });
});

const BIN = fileURLToPath(new URL('../../packages/monitor/src/cli/bin.js', import.meta.url));
const optionsOf = (url: string, state: string) => [
  ...['monitor', '--url', url, '--key', formatVerifierKey(VERIFIER_KEY), '--state', state],
];

describe.skipIf(!canMount)('a monitor whose disk is full', () => {
  test('checks the log, and raises an alarm with the evidence in its message', async () => {
    const { inside, dir, fill, free } = await smallDisk();
    const http = await serve(new FakeLog(entries(3)), { isPublic: true });
    const command = inside([NODE, BIN, ...optionsOf(http.url, `${dir}.state`)]);
    const once = () => run({ command: [...command, '--once'] });
    fill();
    const full = await once();
    expect(full).toMatchObject({ code: 2, stdout: '' });
    expect(full.stderr).toMatch(/^not checked: cannot write \S+\.state: ENOSPC/m);
    free();
    expect(await once()).toMatchObject({ code: 0, stderr: '' });
    fill();
    const following = start({ command: [...command, '--interval', '1'] });
    await expect.poll(following.stderr).toMatch(/^(not checked: cannot write .*\n){2}/);
    const fork = new FakeLog(entries(4).with(1, toEntry(2, { name: 'Fren' })));
    http.serve(fork);
    expect((await following.ended).code).toBe(1);
    const [, base64 = ''] = /^received.checkpoint, in Base64: (.*)$/m.exec(following.stderr()) ?? [];
    expect(following.stderr()).toMatch(/^ALARM: fork: .*; the evidence could not be written: ENOSPC/m);
    expect(Buffer.from(base64, 'base64')).toEqual(await fork.checkpoint());
  });
});

test('a monitor whose state is in a read-only directory ends with 2, and names the file', async () => {
  const dir = tempDir();
  chmodSync(dir, 0o555);
  onTestFinished(() => chmodSync(dir, 0o700)); // so that it can be removed
  const http = await serve(new FakeLog(entries(3)), { isPublic: true });
  const command = [NODE, BIN, ...optionsOf(http.url, join(dir, 'state')), '--once'];
  expect(await run({ ...READER, command })).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(`^not checked: cannot lock ${dir}/state\\.lock: EACCES: .*\n$`),
  });
});
