import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { scrape } from '../support/metrics.ts';
import { checkpointOf, startService } from '../support/service.ts';

type Service = Awaited<ReturnType<typeof startService>>;

const METRICS_PORT = '0';
const run = (service: Service, args: string[], env: Record<string, string> = {}) =>
  runCli(args, { DATA_DIR: service.dir, ...env });

/** When a job has last succeeded, and whether it has failed since then. */
async function resultOf(job: 'backup' | 'verify', { metricsUrl }: Service) {
  const samples = await scrape(metricsUrl);
  return [`plant_store_last_${job}_timestamp_seconds`, `plant_store_last_${job}_failed`].map((name) =>
    samples.get(name),
  );
}

test.each(['backup', 'verify'] as const)('a %s is seen to run, and to fail', async (job) => {
  const service = await startService({ METRICS_PORT });
  const args = job === 'backup' ? ['backup', join(tempDir(), 'copy.db')] : ['verify'];
  const expectFailure = async () => {
    using log = new DatabaseSync(join(service.dir, 'log.db'));
    log.exec('CREATE TRIGGER other AFTER INSERT ON events BEGIN SELECT 1; END');
    expect(await run(service, job === 'backup' ? ['backup', tempDir()] : ['verify'])).toMatchObject({
      code: 1,
    });
    log.exec('DROP TRIGGER other');
  };
  const other = job === 'backup' ? 'verify' : 'backup';
  expect(await resultOf(job, service)).toEqual([0, 0]);
  await expectFailure();
  expect(await resultOf(job, service)).toEqual([0, 1]);
  const before = Date.now();
  expect(await run(service, args)).toMatchObject({ code: 0 });
  const [at = 0, failed] = await resultOf(job, service);
  expect(failed).toBe(0);
  expect(at * 1_000).toBeGreaterThanOrEqual(before);
  expect(at * 1_000).toBeLessThanOrEqual(Date.now());
  await expectFailure();
  expect(await resultOf(job, service)).toEqual([at, 1]);
  expect(await resultOf(other, service)).toEqual([0, 0]);
  expect(statSync(join(service.dir, `last-${job}`)).mode & 0o077).toBe(0);
});

test('a comparison with a checkpoint is not the job, and is not recorded', async () => {
  const service = await startService({ METRICS_PORT });
  expect(await run(service, ['verify', '--expect', 'none'])).toMatchObject({ code: 1 });
  expect(await resultOf('verify', service)).toEqual([0, 0]);
});

test('a result that cannot be recorded is a line, and changes nothing', async () => {
  const service = await startService({ METRICS_PORT });
  const file = join(service.dir, 'last-verify');
  writeFileSync(file, 'x');
  expect(await resultOf('verify', service)).toEqual([0, 0]);
  rmSync(file);
  mkdirSync(file);
  const { code, stdout, stderr } = await run(service, ['verify']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('problems  none') });
  expect(stderr).toMatch(RegExp(`^cannot write ${file}: .*\n$`));
  expect(await resultOf('verify', service)).toEqual([0, 0]);
});

test('an instance on EventStoreDB has a result only if it was verified', async () => {
  const server = await startFakeServer();
  const service = await startService({ METRICS_PORT, EVENTSTOREDB_URL: server.url });
  const env = { EVENTSTOREDB_URL: server.url };
  expect(await resultOf('verify', service)).toEqual([undefined, undefined]);
  expect(await run(service, ['verify'], env)).toMatchObject({ code: 0 });
  expect(await resultOf('verify', service)).toEqual([expect.any(Number), 0]);
  expect(await resultOf('backup', service)).toEqual([undefined, undefined]);
});

test('verify --signed compares the log with what was signed, and says so; what was not signed is no problem', async () => {
  const verify = (service: Service, env = {}) => run(service, ['verify', '--signed'], env);
  const NOTHING = expect.stringMatching(
    /^expected +the service has signed nothing with this key and origin$/m,
  );
  const none = await startService();
  await none.as('alice').create(1, { name: 'Fern' });
  for (const env of [{ MERKLE_TREE: 'off' }, {}])
    expect(await verify(none, env)).toMatchObject({ code: 0, stdout: NOTHING });
  const signing = await startService({ MERKLE_TREE: 'on' });
  await signing.as('alice').create(1, { name: 'Fern' });
  await checkpointOf(1, signing.as('carol', 'audit'));
  const signed = expect.stringMatching(/^expected +the log begins with 1:[\da-f]{64}$/m);
  expect(await verify(signing)).toMatchObject({ code: 0, stdout: signed });
  expect(await verify(signing, { LOG_ORIGIN: 'new.example' })).toMatchObject({ code: 0, stdout: NOTHING });
  await signing.close();
  const again = await startService({ DATA_DIR: signing.dir, MERKLE_TREE: 'on' });
  const file = join(none.dir, 'log.db');
  await none.close();
  await again.close();
  writeFileSync(join(signing.dir, 'log.db'), readFileSync(file)); // another plant
  const contradicting = await verify(again);
  expect(contradicting.code).toBe(1);
  expect(contradicting.stdout).toContain('the first 1 events are not the expected events');
  expect((await run(again, ['verify', '--signed', '--expect', '0:00'])).stderr).toContain('--expect');
});
