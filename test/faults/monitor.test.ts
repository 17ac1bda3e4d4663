import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { auditorOf } from '../support/auditor.ts';
import { expectRefused, runCli } from '../support/cli.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { logWith } from '../support/logs.ts';
import { startServiceWithTree } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

type Service = Awaited<ReturnType<typeof startServiceWithTree>>;

describe('an auditor of a service', () => {
  /** The service over a copy of the data of another; it does not know what was signed, nor the tree. */
  async function overCopy(dir: string, sql = ''): Promise<Service> {
    const DATA_DIR = tempDir();
    cpSync(dir, DATA_DIR, { recursive: true });
    for (const name of readdirSync(DATA_DIR))
      if (/^(merkleTree|checkpoint)/.test(name)) rmSync(join(DATA_DIR, name));
    using db = new DatabaseSync(join(DATA_DIR, 'log.db'));
    const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all();
    for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
    db.exec(sql);
    for (const { sql: trigger } of triggers) db.exec(`${trigger}`);
    db.close();
    return startServiceWithTree({ DATA_DIR });
  }
  const RENAME = "UPDATE events SET data = replace(data, 'plant 2', 'plant X') WHERE position = 2";

  test.each([
    ['the same size', 0, /^ALARM: fork: the log has signed two roots of 400 events/],
    [
      'a larger one',
      1,
      /^ALARM: fork: the log has signed 400:\w+, but the first 400 of its 401 events are 400:/,
    ],
  ])('notices another server whose log differs in one byte, with %s', async (_, added, alarm) => {
    const first = await startServiceWithTree({ DATA_DIR: logWith({ events: 400 }) });
    const { monitor, monitored, state } = await auditorOf(first);
    await monitored(400);
    await first.close();
    const second = await overCopy(first.dir, RENAME);
    const one = await auditorOf(second);
    if (added > 0) await second.as('alice').create(1_000, { name: 'Ivy' });
    await one.monitored(400 + added); // until its tree is complete
    expectRefused(await monitor(second.url), alarm);
    expect(readFileSync(join(`${state}.alarm`, 'received.checkpoint'))).toEqual(
      readFileSync(`${one.state}.checkpoint`),
    );
  });

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
    using db = new DatabaseSync(join(service.dir, 'log.db'));
    db.exec('DROP TRIGGER events_are_never_updated');
    db.exec("UPDATE events SET data = replace(data, 'Ivy', 'Elm') WHERE position = 4");
    const { code, stderr } = await monitor();
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /^ALARM: mismatch: the entry of event 4 does not have its hash in the tree/,
      ),
    });
  });
});
