import type { StatsFs } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { basename } from 'node:path';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { TOKEN_REJECTIONS, type TokenRejection } from '../auth.ts';
import type { ClosedRequest, ServerObserver } from '../observer.ts';

/** Methods with a label value of their own; clients cannot create others. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * The metrics of a server, by the conventions of Prometheus (https://prometheus.io/docs/practices/naming/). No label has
 * a value that a client chooses. The names of all of them start with `prefix`, except those of the process.
 */
export class Metrics implements ServerObserver {
  readonly #registry = new Registry();
  readonly #prefix: string;
  readonly #requests: Histogram<'method' | 'route' | 'status'>;
  readonly #tokensRejected: Counter<'reason'>;

  constructor(prefix: string) {
    this.#prefix = prefix;
    collectDefaultMetrics({ register: this.#registry });
    // Gauges with the suffix of a counter: each is the sum of the gauge without it.
    for (const what of ['handles', 'requests', 'resources'])
      this.#registry.removeSingleMetric(`nodejs_active_${what}_total`);
    this.#requests = this.histogram(
      'http_request_duration_seconds',
      'Requests, until the response is sent or the client has disconnected.',
      REQUEST_SECONDS,
      ['method', 'route', 'status'],
    );
    this.#tokensRejected = this.counter('tokens_refused_total', 'Requests refused because of their token.', [
      'reason',
    ]);
    for (const reason of TOKEN_REJECTIONS) this.#tokensRejected.inc({ reason }, 0);
  }

  counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name: this.#prefix + name, help, labelNames, registers: [this.#registry] });
  }

  /** `collect` sets the value at each read. */
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

  /** Adds a metric that is measured at each read; without a value if that is undefined. */
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

  /** Adds the sizes of files, by name, and of a directory's file system, measured at each read. What is missing has no value. */
  measureFiles(files: readonly string[], directory: string): void {
    const size = this.gauge('file_size_bytes', 'Files of the data directory.', ['file'], async () => {
      size.reset();
      for (const file of files) {
        const found = await stat(file).catch(() => undefined);
        if (found) size.set({ file: basename(file) }, found.size);
      }
    });
    const measure = (name: string, help: string, bytesOf: (found: StatsFs) => number): void =>
      this.measure(name, help, async () => {
        const found = await statfs(directory).catch(() => undefined);
        return found && bytesOf(found);
      });
    measure('filesystem_size_bytes', 'Their file system.', ({ blocks, bsize }) => blocks * bsize);
    measure('filesystem_avail_bytes', 'What is free in it.', ({ bavail, bsize }) => bavail * bsize);
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
