import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { signedJwt } from '@event-sourced/testing/jwt';
import { appendTo, plantOf } from '@event-sourced/testing/logs';
import { exchange } from '@event-sourced/testing/rawHttp';
import { dirWith, emptyLog } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { loadOrCreateKey } from '../../packages/node/src/files/keyFile.ts';
import { readCommit } from '../../src/version.ts';
import { auditorToken, listen as listenToEvents } from '../support/eventStream.ts';
import { ofEachView, type Samples, samplesOf, scrape, scrapeText } from '../support/metrics.ts';
import { ROOT } from '../support/process.ts';
import { startService } from '../support/service.ts';

const start = (env: Record<string, string> = {}) => startService({ METRICS_PORT: '0', ...env });
const FERN = { name: 'Fern', tag: 'indoor' };

/** Requests so far, by `METHOD route status`. */
function requestsIn(samples: Samples): Record<string, number> {
  const counts = Object.entries(samplesOf(samples, 'plant_store_http_request_duration_seconds_count'));
  return Object.fromEntries(
    counts.map(([labels, count]) => {
      const [, method, route, status] = /^\{method="(.*)",route="(.*)",status="(.*)"\}$/.exec(labels) ?? [];
      return [`${method} ${route} ${status}`, count];
    }),
  );
}

/** Resolves with a scrape in which this number of requests is counted: each is when its connection knows of its end. */
async function scrapeAfter(requests: number, url: string | undefined): Promise<Samples> {
  let samples: Samples = new Map();
  const total = async () => {
    samples = await scrape(url);
    return Object.values(requestsIn(samples)).reduce((sum, count) => sum + count, 0);
  };
  await expect.poll(total).toBe(requests);
  return samples;
}

test('without METRICS_PORT there are no metrics', async () => {
  const { metricsUrl, log } = await startService();
  expect(metricsUrl).toBeUndefined();
  expect(log().map(({ msg }) => msg)).not.toContainEqual(expect.stringContaining('metrics'));
});

describe('a scrape after known requests', () => {
  test('has their exact numbers', async () => {
    const { url, metricsUrl, as, dir } = await start({ MERKLE_TREE: 'on' });
    const alice = as('alice');
    for (const [id, plant] of [
      [1, FERN],
      [2, FERN],
      [2, FERN],
      [2, { name: 'Oak' }],
    ] as const)
      await alice.create(id, plant);
    await alice.list();
    await alice.request('/plants', { method: 'HEAD' });
    await alice.get('?limit=x');
    await alice.post('{');
    await alice.request('/events');
    await alice.request('/plants', { method: 'DELETE' });
    await fetch(`${url}/plants`);
    const { privateKey } = loadOrCreateKey(join(dir, 'key.json'));
    for (const token of ['nonsense', signedJwt(privateKey, { sub: 'alice', exp: 0 })])
      await fetch(`${url}/plants`, { headers: { authorization: `Bearer ${token}` } });
    await as('carol', 'audit').request('/events');
    await fetch(`${url}/health/ready`);

    await expect.poll(async () => (await scrape(metricsUrl)).get('plant_store_merkle_tree_size')).toBe(2);
    const samples = await scrapeAfter(15, metricsUrl);
    expect(requestsIn(samples)).toEqual({
      'POST /plants 200': 3,
      'POST /plants 400': 2,
      'GET /plants 200': 1,
      'HEAD /plants 200': 1,
      'GET /plants 400': 1,
      'GET /events 403': 1,
      'DELETE unmatched 405': 1,
      'GET /plants 401': 3,
      'GET /events 200': 1,
      'GET /health/ready 200': 1,
    });
    const posts = '{method="POST",route="/plants",status="200"}';
    expect(samples.get(`plant_store_http_request_duration_seconds_sum${posts}`)).toBeGreaterThan(0);
    expect(samplesOf(samples, 'plant_store_tokens_refused_total')).toEqual({
      '{reason="missing"}': 1,
      '{reason="invalid"}': 1,
      '{reason="expired"}': 1,
      '{reason="insufficient_scope"}': 1,
    });
    expect(samplesOf(samples, 'plant_store_appends_total')).toEqual({
      '{outcome="stored"}': 2,
      '{outcome="wrong_revision"}': 2,
      '{outcome="failed"}': 0,
    });
    expect(samples.get('plant_store_commit_batch_size_sum')).toBe(4);
    expect(samples.get('plant_store_commit_batch_size_count')).toBe(4);
    expect(samples.get('plant_store_commit_duration_seconds_count')).toBe(4);
    expect(samples.get('plant_store_commit_duration_seconds_sum')).toBeGreaterThan(0);
    for (const [metric, value] of [
      ['ready', 1],
      ['lag_events', 0],
      ['lag_seconds', 0],
      ['rebuilds_total', 0],
    ] as const)
      expect(samplesOf(samples, `plant_store_view_${metric}`)).toEqual(ofEachView(value));
    for (const [series, value] of [
      ['plant_store_view_save_failures_total{view="plantsByUser"}', 0],
      ['plant_store_merkle_tree_failures_total', 0],
      ['plant_store_checkpoints_refused{reason="log_contradicts"}', 0],
      ['plant_store_checkpoints_refused{reason="file_unusable"}', 0],
      ['plant_store_log_position{log="sqlite"}', 2],
      ['plant_store_event_store_available', 1],
      ['plant_store_event_store_reconnections_total', 0],
      ['plant_store_event_store_subscription_drops_total', 0],
      ['plant_store_started_after_unclean_stop', 0],
      ['plant_store_event_streams', 0],
      ['plant_store_lists_in_flight', 0],
    ] as const)
      expect([series, samples.get(series)]).toEqual([series, value]);
    for (const file of ['log.db', 'log.db-wal', 'merkleTree.db'])
      expect(samples.get(`plant_store_file_size_bytes{file="${file}"}`)).toBe(statSync(join(dir, file)).size);
    const free = samples.get('plant_store_filesystem_avail_bytes') as number;
    expect(free).toBeGreaterThan(0);
    expect(samples.get('plant_store_filesystem_size_bytes')).toBeGreaterThanOrEqual(free);
    for (const series of [
      'process_cpu_seconds_total',
      'process_resident_memory_bytes',
      'nodejs_eventloop_lag_p99_seconds',
    ])
      expect(samples.get(series)).toBeGreaterThan(0);
  });

  test('has no user, ID, token, or other text of a client', async () => {
    const { url, metricsUrl, as, dir } = await start();
    const odd = [
      ...'/odd"}1 /plants/odd /%6fdd /%odd //odd /plants?odd /tile/odd /%00odd'.split(' '),
      '/odd\\n{}',
    ];
    for (const path of odd)
      await exchange(url, `GET ${path} HTTP/1.1\r\nHost: odd\r\nConnection: close\r\n\r\n`);
    for (const method of ['PURGE', 'PROPFIND', 'DELETE'])
      await exchange(url, `${method} /odd HTTP/1.1\r\nHost: odd\r\nConnection: close\r\n\r\n`);
    await as('odd user').create(424242, { name: 'odd name', tag: 'odd tag' });
    await scrapeAfter(odd.length + 4, metricsUrl);
    const text = await scrapeText(metricsUrl);
    expect(text).not.toMatch(/odd|424242|Bearer|eyJ/i);
    expect(text).not.toContain(dir);
    const routes = [...text.matchAll(/route="(.*?)"/g)].map(([, route]) => route);
    expect(new Set(routes)).toEqual(new Set(['/plants', 'unmatched']));
    const methods = [...text.matchAll(/method="(.*?)"/g)].map(([, method]) => method);
    expect(new Set(methods)).toEqual(new Set(['GET', 'POST', 'DELETE', 'other']));
  });

  test('has the event streams that are open', async () => {
    const { url, metricsUrl, dir, as } = await start();
    const streams = async () => (await scrape(metricsUrl)).get('plant_store_event_streams');
    await as('alice').create(1, FERN);
    const { source, messages } = listenToEvents(url, { token: await auditorToken(dir) });
    await expect.poll(() => messages).toHaveLength(1);
    expect(await streams()).toBe(1);
    source.close();
    await expect.poll(streams).toBe(0);
  });
});

test('the metrics of a view that has halted say how far it is behind', async () => {
  const metadata = { occurredAt: '2026-03-01T12:00:00Z' };
  const invalid = [1, 2, 3].map((id) => ({ ...plantOf('alice', id, ''), data: { name: 5 }, metadata }));
  const DATA_DIR = appendTo(tempDir(), ...invalid);
  const { metricsUrl, log: lines } = await start({ DATA_DIR });
  await expect.poll(() => lines().some(({ msg }) => msg.includes('halted'))).toBe(true);
  const samples = await scrape(metricsUrl);
  expect(samples.get('plant_store_view_ready{view="plantsByUser"}')).toBe(0);
  expect(samples.get('plant_store_view_lag_events{view="plantsByUser"}')).toBe(3);
  const seconds = (Date.now() - Date.parse('2026-03-01T12:00:00Z')) / 1_000;
  expect(samples.get('plant_store_view_lag_seconds{view="plantsByUser"}')).toBeCloseTo(seconds, -4);
});

test.each([
  ['the embedded log', 'sqlite'],
  ['EventStoreDB', 'eventstoredb'],
] as const)(
  'a service on %s has its version and commit, that of Node, and where its log is',
  async (kind, log) => {
    const { metricsUrl } = await start((await emptyLog(kind)).env);
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    expect(samplesOf(await scrape(metricsUrl), 'plant_store_build_info')).toEqual({
      [`{version="${version}",commit="${readCommit() ?? ''}",node="${process.version}",log="${log}"}`]: 1,
    });
  },
);

describe('the port of the metrics', () => {
  test('serves only /metrics, and the port of the API does not serve it', async () => {
    const { url, metricsUrl = '' } = await start();
    const { origin, port } = new URL(metricsUrl);
    expect(port).not.toBe(new URL(url).port);
    const head = await fetch(metricsUrl, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect(head.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect((await fetch(`${metricsUrl}?name=up`)).status).toBe(200);
    for (const path of '/ /plants /health/live /metrics/ /metrics%3F //metrics /openapi.json'.split(' '))
      expect([path, (await fetch(`${origin}${path}`)).status]).toEqual([path, 404]);
    const posted = await fetch(metricsUrl, { method: 'POST', body: 'x' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    expect((await fetch(`${url}/metrics`)).status).toBe(404);
  });
});

test('counters, and only they, end in _total', async () => {
  const { metricsUrl } = await start();
  const types = [...(await scrapeText(metricsUrl)).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  expect(types).not.toEqual([]);
  for (const [line, name, type] of types) expect(name?.endsWith('_total'), line).toBe(type === 'counter');
});

test('docs/metrics.md lists exactly the metrics of the service, with their types', async () => {
  const { metricsUrl, as } = await start({ MERKLE_TREE: 'on', DATA_DIR: dirWith(1) });
  await as('alice').list();
  const page = readFileSync(join(ROOT, 'docs/metrics.md'), 'utf8');
  const listed = [...page.matchAll(/^\| `(plant_store_\w+)`.* \| (counter|gauge|histogram) \|/gm)];
  const types = (await scrapeText(metricsUrl)).matchAll(/^# TYPE (plant_store_\w+) (\w+)$/gm);
  expect(listed.map(([, name, type]) => [name, type]).sort()).toEqual(
    [...types].map(([, name, type]) => [name, type]).sort(),
  );
});
