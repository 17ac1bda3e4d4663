import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { alterLog, logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { auditorOf } from '../support/auditor.ts';
import { expectRefused, runCli } from '../support/cli.ts';
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
    expectRefused(
      await monitor(),
      /^ALARM: mismatch: the entry of event 4 does not have its hash in the tree/,
    );
  });
});
