import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { logWith } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { ofEachView, samplesOf, scrape } from '../support/metrics.ts';
import { startService } from '../support/service.ts';

const start = (env: Record<string, string> = {}) => startService({ METRICS_PORT: '0', ...env });
const FERN = { name: 'Fern', tag: 'indoor' };

test('the metrics of a view count a rebuild, but not a new view', async () => {
  const DATA_DIR = tempDir();
  const rebuilds = async (url: string | undefined) =>
    samplesOf(await scrape(url), 'plant_store_view_rebuilds_total');
  const first = await start({ DATA_DIR, MERKLE_TREE: 'on' });
  await first.as('alice').create(1, FERN);
  await first.as('alice').list();
  // The receipt waits for the tree: an empty tree would not be rebuilt.
  expect((await first.as('alice').request('/proofs/plants?id=1')).status).toBe(200);
  expect(await rebuilds(first.metricsUrl)).toEqual(ofEachView(0));
  await first.close();
  for (const file of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(DATA_DIR, file), { force: true });
  logWith({ dir: DATA_DIR, events: 1 }); // another log
  const second = await start({ DATA_DIR, MERKLE_TREE: 'on' });
  await expect.poll(() => rebuilds(second.metricsUrl)).toEqual(ofEachView(1));
});

test('the metrics say that the log had not been closed', async () => {
  const running = await start();
  await running.as('alice').create(1, FERN);
  const DATA_DIR = tempDir();
  for (const file of ['log.db', 'log.db-wal']) cpSync(join(running.dir, file), join(DATA_DIR, file));
  const { metricsUrl } = await start({ DATA_DIR });
  expect((await scrape(metricsUrl)).get('plant_store_started_after_unclean_stop')).toBe(1);
});

test('the metrics say whether EventStoreDB is available, and count connections and subscriptions', async () => {
  const server = await startFakeServer();
  const env = { EVENTSTOREDB_URL: server.url, EVENTSTOREDB_TIMEOUT: '10' };
  const { metricsUrl, as, log } = await start(env);
  const alice = as('alice');
  const sample = async (name: string) => (await scrape(metricsUrl)).get(`plant_store_${name}`);
  const lag = 'view_lag_events{view="plantsByUser"}';
  const drops = 'event_store_subscription_drops_total';
  for (const plant of [FERN, FERN, { name: 'Oak' }]) await alice.create(1, plant);
  await alice.list();
  expect(samplesOf(await scrape(metricsUrl), 'plant_store_appends_total')).toEqual({
    '{outcome="stored"}': 1,
    '{outcome="wrong_revision"}': 2,
    '{outcome="failed"}': 0,
  });
  expect([await sample('event_store_available'), await sample(lag), await sample(drops)]).toEqual([1, 0, 0]);

  await server.stop();
  await expect.poll(() => sample('event_store_available')).toBe(0);
  expect(await sample(lag)).toBeUndefined();
  expect((await alice.create(2, FERN)).status).toBe(503);
  expect(await sample('appends_total{outcome="failed"}')).toBe(1);
  const logged = () => log().filter(({ msg }) => msg === 'subscription dropped; resubscribing').length;
  await expect.poll(logged).toBeGreaterThan(0);

  await server.restart();
  await expect.poll(() => sample('event_store_available')).toBe(1);
  await expect.poll(() => sample(lag)).toBe(0);
  expect(await sample(drops)).toBe(logged());
  expect(await sample('event_store_reconnections_total')).toBeGreaterThan(0);
});
