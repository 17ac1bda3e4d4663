import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { launch } from '../support/process.ts';
import { dashboard, launchPrometheus, sentQuery } from '../support/prometheus.ts';
import { client } from '../support/service.ts';
import { dashboardPage } from './dashboardPage.ts';

const RECORDED_S = 30;
/** Before the recording, so that rates have values from its start. */
const WARM_UP_S = 8;
/** Four scrapes, as Grafana chooses it. */
const RATE_INTERVAL = '4s';

/** The dashboard as a page, with half a minute of a service under some load, read by a Prometheus. */
export async function recordedDashboard(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'plant-store-'));
  const env = { DATA_DIR: join(dir, 'data'), METRICS_PORT: '0', MERKLE_TREE: 'on' };
  const service = launch({ env });
  try {
    const url = await service.listening();
    const [, metricsUrl = ''] = await service.printed(/metrics at (http:[^\s"]+)/);
    const prometheus = await launchPrometheus({ metricsUrl, dir, interval: '1s' });
    try {
      const end = await use(client(url, env.DATA_DIR), WARM_UP_S + RECORDED_S);
      const start = end - RECORDED_S;
      return await dashboardPage(dashboard, [start, end], async (expr) => {
        const query = { query: sentQuery(expr, RATE_INTERVAL), start, end, step: 1 };
        const parameters = Object.entries(query).map(([name, value]): [string, string] => [
          name,
          String(value),
        ]);
        const { status, error, data } = await prometheus.get(
          `query_range?${new URLSearchParams(parameters)}`,
        );
        if (status !== 'success') throw new Error(`${expr}: ${error}`);
        return data.result;
      });
    } finally {
      await prometheus.kill();
    }
  } finally {
    await service.kill();
    await rm(dir, { recursive: true });
  }
}

/** Sends requests, more of them and fewer, some of them refused; returns the time of its end, in seconds. */
async function use(as: ReturnType<typeof client>, seconds: number): Promise<number> {
  const startedAt = Date.now();
  const [alice, bob, carol] = [as('alice'), as('bob'), as('carol', 'audit')];
  const closing = new AbortController();
  let id = 0;
  for (;;) {
    const elapsed = (Date.now() - startedAt) / 1_000;
    if (elapsed > seconds) break;
    const sent = Math.round(6 + 14 * Math.sin(elapsed / 5) ** 2);
    const requests = Array.from({ length: sent }, () => alice.create(++id, { name: 'Fern', tag: 'indoor' }));
    for (let i = 0; i < sent / 4; i++) requests.push(bob.get(), alice.get('?limit=100'));
    if (id % 3 === 0) requests.push(bob.create(1, { name: `Oak ${id}` })); // the first one only
    if (id % 4 === 0) requests.push(alice.request('/events'), carol.request('/events?order=descending'));
    if (id % 5 === 0) requests.push(fetch(`${new URL((await bob.get()).url).origin}/plants`));
    if (id % 9 === 0) openStream();
    for (const response of await Promise.all(requests)) await response.arrayBuffer();
    await pause(100);
  }
  closing.abort();
  return Math.floor(Date.now() / 1_000);

  /** An event stream that is closed after three seconds. */
  function openStream(): void {
    const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(3_000)]);
    const headers = { accept: 'text/event-stream' };
    carol
      .request('/events', { headers, signal })
      .then((response) => response.arrayBuffer())
      .catch(() => {});
  }
}
