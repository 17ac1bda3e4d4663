import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { FakeWitness } from '../../packages/transparency-log/test/signer/fakeWitness.ts';
import { scrapeText } from '../support/metrics.ts';
import { canRun, ROOT, run, start } from '../support/process.ts';
import { startService } from '../support/service.ts';

const OBSERVE = join(ROOT, 'observe');
const ALERTS = join(OBSERVE, 'alerts.yml');
const hasPromtool = canRun('alert rules and metrics', ['promtool', '--version']);
const hasPrometheus = canRun('the queries of the dashboard', ['prometheus', '--version']);

/** A service with metrics, a Merkle tree, a witness that signs, one that fails, and some requests. */
async function usedService() {
  const [signing, failing] = await Promise.all(['w1', 'w2'].map((name) => new FakeWitness(name).start()));
  if (!signing || !failing) throw new Error('there are two');
  failing.respond = (_, response) => void response.destroy();
  const WITNESSES = [signing, failing].map(({ setting }) => setting).join(',');
  const env = { METRICS_PORT: '0', MERKLE_TREE: 'on', WITNESSES, QUORUM: '1' };
  const service = await startService(env);
  const use = async (): Promise<void> => {
    for (const id of [1, 2]) await service.as('alice').create(id, { name: 'Fern' });
    await service.as('alice').list();
  };
  await use();
  return { metricsUrl: service.metricsUrl ?? '', use };
}

describe.runIf(hasPromtool)('promtool', () => {
  test.each([
    ['the configuration', ['check', 'config', join(OBSERVE, 'prometheus.yml')]],
    ['the alert rules', ['check', 'rules', '--lint-fatal', ALERTS]],
    ['the tests of the alert rules', ['test', 'rules', join(OBSERVE, 'alerts.test.yml')]],
    ['the tests of blips and slow burns', ['test', 'rules', join(OBSERVE, 'blips.test.yml')]],
  ])('accepts %s', async (_, args) => {
    const { code, stdout, stderr } = await run({ command: ['promtool', ...args] });
    expect([code, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')]);
  });

  test('has nothing against the metrics of the service', async () => {
    const { metricsUrl } = await usedService();
    const promtool = { command: ['promtool', 'check', 'metrics'] };
    const { stdout, stderr } = await run(promtool, await scrapeText(metricsUrl));
    expect(stdout + stderr).toBe('');
  });
});

type Queried = { expr: string };
const dashboard: { panels: { targets?: Queried[] }[]; annotations: { list: Queried[] } } = JSON.parse(
  readFileSync(join(OBSERVE, 'grafana/dashboard.json'), 'utf8'),
);
const dashboardQueries = [
  ...dashboard.panels.flatMap(({ targets = [] }) => targets),
  ...dashboard.annotations.list,
].map(({ expr }) => expr);

type Rule = { query: string; health: string };
/** What Prometheus returns: of the queries, the rules, and the names of all metrics. */
type Result = {
  status: string;
  error?: string;
  data: { result: unknown[]; groups: { rules: Rule[] }[] } & string[];
};

/** A Prometheus that reads these metrics, until the end of the test. */
async function startPrometheus(metricsUrl: string) {
  const dir = tempDir();
  const config = `
global: { scrape_interval: 200ms, evaluation_interval: 200ms }
rule_files: [${ALERTS}]
scrape_configs:
  - job_name: plant-store
    static_configs: [{ targets: ['${new URL(metricsUrl).host}'], labels: { instance: service } }]
`;
  writeFileSync(join(dir, 'prometheus.yml'), config);
  const options = [
    `--config.file=${join(dir, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    '--web.listen-address=127.0.0.1:0',
  ];
  const prometheus = start({ command: ['sh', '-c', 'exec prometheus "$@" 2>&1', 'sh', ...options] });
  const [, address] = await prometheus.printed(/Listening on.*address=(\S+)/i);
  const get = async (path: string): Promise<Result> =>
    (await fetch(`http://${address}/api/v1/${path}`)).json() as Promise<Result>;
  /** A query of the dashboard as Grafana sends it, for all instances. */
  const query = (expr: string) =>
    get(
      `query?${new URLSearchParams({ query: expr.replaceAll('$__rate_interval', '20s').replaceAll('$instance', '.*') })}`,
    );
  return { get, query };
}

test.runIf(hasPrometheus)(
  'a Prometheus that reads the metrics of a service has a value for each query of the dashboard, and every metric of the alert rules',
  async () => {
    const { metricsUrl, use } = await usedService();
    const { query, get } = await startPrometheus(metricsUrl);
    for (const expr of dashboardQueries) {
      const found = async () => {
        const { status, error, data } = await query(expr);
        if (status !== 'success') throw new Error(`${expr}: ${error}`);
        if (data.result.length === 0) await use(); // a rate has values as soon as something happens
        return data.result.length;
      };
      await expect.poll(found, { message: expr }).toBeGreaterThan(0);
    }

    const rules = async () => (await get('rules')).data.groups.flatMap((group) => group.rules);
    const evaluated = async () => (await rules()).filter(({ health }) => health === 'ok').length;
    await expect.poll(evaluated).toBe(readFileSync(ALERTS, 'utf8').match(/- alert:/g)?.length);
    const names = new Set<string>((await get('label/__name__/values')).data);
    const used = (await rules()).flatMap(
      (rule) => rule.query.match(/\b(plant_store|process|nodejs)_\w+/g) ?? [],
    );
    expect(used.filter((name) => !names.has(name))).toEqual([]);
  },
);
