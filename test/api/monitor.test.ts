import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { auditorToken } from '../support/eventStream.ts';
import { logWith } from '../support/logs.ts';
import { startServiceWithTree } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

type Service = Awaited<ReturnType<typeof startServiceWithTree>>;

/** An auditor who has the key of the log, a token, and a file for the last checkpoint. */
async function auditorOf({ dir, url }: Service) {
  const state = join(tempDir(), 'state');
  const key = succeeded(await runCli(['log-key'], { DATA_DIR: dir })).trim();
  const TOKEN = await auditorToken(dir);
  const monitor = (at = url) => {
    const args = ['--url', at, '--key', key, '--state', state, '--once'];
    return runCli(['monitor', ...args], { TOKEN });
  };
  /** The output of a monitor that finds nothing, once the tree has as many events. */
  const monitored = async (size: number): Promise<string> => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const checkpoint = async () => (await fetch(`${url}/checkpoint`, { headers })).text();
    await expect.poll(checkpoint).toContain(`\n${size}\n`);
    return succeeded(await monitor());
  };
  return { state, key, monitor, monitored };
}

const STORES: [name: string, env: () => Promise<Record<string, string>>][] = [
  ['the embedded log', async () => ({})],
  ['EventStoreDB', async () => ({ EVENTSTOREDB_URL: (await startFakeServer()).url })],
];

describe.each(STORES)('an auditor of %s', (_, storeEnv) => {
  test('follows the log over HTTP, and checks receipts and proofs without it', async () => {
    const env = await storeEnv();
    const service = await startServiceWithTree(env);
    const { state, key, monitored } = await auditorOf(service);
    const alice = service.as('alice');
    for (const id of [1, 2, 3]) expect((await alice.create(id, { name: `Fern ${id} 🌱` })).status).toBe(200);
    expect(await monitored(3)).toMatch(/ {2}new events: \d, with problems: 0, of unknown types: 0\n$/);

    const receipt = await (await alice.request('/proofs/plants?id=2')).text();
    const check = (text: string, ...options: string[]) =>
      runCli(['check-proof', '--key', key, ...options], {}, [text]);
    expect(succeeded(await check(receipt))).toMatch(
      /^event "[\da-f-]{36}" of "plant-alice\/2" is number 2 of the log urn:plant-store 3:[\da-f]{64}\n$/,
    );

    for (const id of [4, 5]) expect((await service.as('bob').create(id, { name: 'Oak' })).status).toBe(200);
    const settings = { DATA_DIR: service.dir, ...env };
    const proof = succeeded(await runCli(['prove', '--from', '3'], settings));
    expect(succeeded(await check(proof, '--expect', `${state}.checkpoint`))).toMatch(
      / 3:\S+ is the beginning of 5:/,
    );
    expect(await monitored(5)).toContain('with problems: 0');
    expect(succeeded(await runCli(['verify', '--expect', `${state}.checkpoint`], settings))).toMatch(
      /^problems +none$/m,
    );
    const signed = succeeded(await runCli(['prove', '--from', '5'], settings));
    expect(signed.slice(signed.indexOf('\n\n') + 2)).toBe(readFileSync(`${state}.checkpoint`, 'utf8')); // the same checkpoint
  });
});

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
