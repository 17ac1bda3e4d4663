import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { launch, ROOT } from './process.ts';

export const OBSERVE = join(ROOT, 'observe');
export const ALERTS = join(OBSERVE, 'alerts.yml');

export type Panel = {
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  fieldConfig?: {
    defaults: {
      unit: string;
      thresholds?: { steps: { color: string; value: number | null }[] };
      mappings?: { options: Record<string, { text: string }> }[];
    };
  };
  targets?: { expr: string; legendFormat: string }[];
};

export const dashboard: { title: string; panels: Panel[]; annotations: { list: { expr: string }[] } } =
  JSON.parse(readFileSync(join(OBSERVE, 'grafana/dashboard.json'), 'utf8'));

/** A query of the dashboard as Grafana sends it, for all instances. */
export const sentQuery = (expr: string, rateInterval: string): string =>
  expr.replaceAll('$__rate_interval', rateInterval).replaceAll('$instance', '.*');

type Rule = { query: string; health: string };
export type Series = { metric: Record<string, string>; values: [number, string][] };
/** What Prometheus returns: of the queries, the rules, and the names of all metrics. */
export type Response = {
  status: string;
  error?: string;
  data: { result: Series[]; groups: { rules: Rule[] }[] } & string[];
};

type Options = { metricsUrl: string; dir: string; interval: string };

/** A Prometheus that reads these metrics, with its files in `dir`. The caller must kill it. */
export async function launchPrometheus({ metricsUrl, dir, interval }: Options) {
  const target = new URL(metricsUrl).host;
  const config = `
global: { scrape_interval: ${interval}, evaluation_interval: ${interval} }
rule_files: [${ALERTS}]
scrape_configs:
  - job_name: plant-store
    static_configs: [{ targets: ['${target}'], labels: { instance: service } }]
`;
  writeFileSync(join(dir, 'prometheus.yml'), config);
  const url = `http://127.0.0.1:${await freePort()}`;
  const options = [
    `--config.file=${join(dir, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    `--web.listen-address=${new URL(url).host}`,
  ];
  const { kill, ended } = launch({ command: ['prometheus', ...options] });
  let over = false;
  void ended.then(() => {
    over = true;
  });
  const isReady = () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) {
    if (over) throw new Error('prometheus has ended');
    await pause(50);
  }
  const get = async (path: string) => (await fetch(`${url}/api/v1/${path}`)).json() as Promise<Response>;
  return { get, kill };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
