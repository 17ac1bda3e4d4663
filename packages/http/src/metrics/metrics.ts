import type { StatsFs } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { basename } from 'node:path';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { TOKEN_REJECTIONS, type TokenRejection } from '../auth.ts';

/** The methods with their own label values; clients cannot create more. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** A request that has ended. `route`: the pattern of its path, if any; `status`: undefined without a response. */
type ClosedRequest = {
  method: string;
  route: string | undefined;
  status: number | undefined;
  seconds: number;
};

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * The metrics of a server, named by the conventions of Prometheus (https://prometheus.io/docs/practices/naming/).
 * Clients cannot choose label values. All names start with `prefix`, except the metrics of the process.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #prefix: string;
  readonly #requests: Histogram<'method' | 'route' | 'status'>;
  readonly #tokensRejected: Counter<'reason'>;

  constructor(prefix: string) {
    this.#prefix = prefix;
    collectDefaultMetrics({ register: this.#registry });
    // Gauges with the suffix of a counter: each is the sum of the gauge without the suffix.
    for (const kind of ['handles', 'requests', 'resources'])
      this.#registry.removeSingleMetric(`nodejs_active_${kind}_total`);
    // Names with a type: promtool refuses them.
    for (const type of ['histogram', 'summary'])
      this.#registry.removeSingleMetric(`nodejs_eventloop_utilization_${type}`);
    this.#requests = this.histogram(
      'http_request_duration_seconds',
      'Duration of requests, until the response is sent or the client has disconnected.',
      REQUEST_SECONDS,
      ['method', 'route', 'status'],
    );
    this.#tokensRejected = this.counter(
      'tokens_refused_total',
      'Requests with a missing or rejected token.',
      ['reason'],
    );
    for (const reason of TOKEN_REJECTIONS) this.#tokensRejected.inc({ reason }, 0);
  }

  counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name: this.#prefix + name, help, labelNames, registers: [this.#registry] });
  }

  /** Adds a gauge; `collect` sets its value at each read. */
  gauge<L extends string = never>(
    name: string,
    help: string,
    labelNames: L[] = [],
    collect?: () => Promise<void>,
  ) {
    const options = { name: this.#prefix + name, help, labelNames, registers: [this.#registry] };
    return new Gauge<L>({ ...options, ...(collect && { collect }) });
  }

  histogram<L extends string = never>(name: string, help: string, buckets: number[], labelNames: L[] = []) {
    const options = { name: this.#prefix + name, help, buckets, labelNames, registers: [this.#registry] };
    return new Histogram<L>(options);
  }

  /** Adds a gauge that is measured at each read; it has no value while the result is undefined. */
  measure(
    name: string,
    help: string,
    read: () => number | undefined | Promise<number | undefined>,
    type: 'gauge' | 'counter' = 'gauge',
  ): void {
    const collect = async (): Promise<void> => {
      metric.remove();
      const value = await read();
      if (value !== undefined) metric.inc(value);
    };
    const options = { name: this.#prefix + name, help, registers: [this.#registry], collect };
    const metric = type === 'gauge' ? new Gauge(options) : new Counter(options);
  }

  /** Adds the sizes of files, and of the file system of a directory. Missing files have no value. */
  measureFiles(files: readonly string[], directory: string): void {
    const size = this.gauge(
      'file_size_bytes',
      'Size of each file in the data directory.',
      ['file'],
      async () => {
        size.reset();
        for (const file of files) {
          const found = await stat(file).catch(() => undefined);
          if (found) size.set({ file: basename(file) }, found.size);
        }
      },
    );
    const measure = (name: string, help: string, toBytes: (found: StatsFs) => number): void =>
      this.measure(name, help, async () => {
        const found = await statfs(directory).catch(() => undefined);
        return found && toBytes(found);
      });
    measure(
      'filesystem_size_bytes',
      'Size of the file system of the data directory.',
      ({ blocks, bsize }) => blocks * bsize,
    );
    measure(
      'filesystem_avail_bytes',
      'Free space in the file system of the data directory.',
      ({ bavail, bsize }) => bavail * bsize,
    );
  }

  async read(): Promise<{ text: string; contentType: string }> {
    return { text: await this.#registry.metrics(), contentType: this.#registry.contentType };
  }

  onRequest({ method, route = 'unmatched', status, seconds }: ClosedRequest): void {
    const labels = { method: METHODS.has(method) ? method : 'other', route, status: status ?? 'none' };
    this.#requests.observe(labels, seconds);
  }

  onTokenRejected(reason: TokenRejection): void {
    this.#tokensRejected.inc({ reason });
  }
}
