import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { TOKEN_REJECTIONS, type TokenRejection } from '../http/auth.ts';

export const CHECKPOINT_REFUSALS = ['log_contradicts', 'file_unusable'] as const;
export type CheckpointRefusal = (typeof CHECKPOINT_REFUSALS)[number];

const PREFIX = 'plant_store_';

/** The outcomes of an append, with their label values. */
const APPEND_OUTCOMES = { stored: 'stored', wrongRevision: 'wrong_revision', failed: 'failed' };
/** Methods with a label value of their own; clients cannot create others. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const COMMIT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const COMMIT_APPENDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** What is read at each scrape. What is undefined is unknown, and has no value then. */
export type Measurements = {
  storeAvailable: boolean;
  views: readonly ViewMeasurements[];
  merkleTree: { size: number; failures: number } | undefined;
  eventStreams: number;
  listsInFlight: number;
  /** Bytes of each file that exists, by its name. */
  files: ReadonlyMap<string, number>;
  /** Bytes of the file system with the data directory. */
  fileSystem: { size: number; free: number } | undefined;
};

export type ViewMeasurements = {
  name: string;
  isReady: boolean;
  lag: { events: number; seconds: number | undefined } | undefined;
  rebuilds: number;
  saveFailures: number | undefined;
};

type Request = { method: string; route: string | undefined; status: number | undefined; seconds: number };

/**
 * The metrics of a service, by the conventions of Prometheus (https://prometheus.io/docs/practices/naming/). No label
 * has a value that a client chooses. The methods `on…` count what happens; the rest is measured at each scrape.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #requests = this.#histogram(
    'http_request_duration_seconds',
    'Requests, until the response is sent or the client has disconnected.',
    REQUEST_SECONDS,
    ['method', 'route', 'status'],
  );
  readonly #tokensRefused = this.#counter(
    'tokens_refused_total',
    'Requests refused because of their token.',
    ['reason'],
  );
  readonly #appends = this.#counter('appends_total', 'Appends to the log, by how they ended.', ['outcome']);
  readonly #commitSeconds = this.#histogram(
    'commit_duration_seconds',
    'Transactions of the embedded log, including their fsync.',
    COMMIT_SECONDS,
  );
  readonly #commitAppends = this.#histogram(
    'commit_batch_size',
    'Appends that share a transaction of the embedded log.',
    COMMIT_APPENDS,
  );
  readonly #uncleanStop = this.#gauge(
    'started_after_unclean_stop',
    '1 if the embedded log had not been closed: after a kill, a power cut, or a failed fsync.',
  );
  readonly #available = this.#gauge(
    'event_store_available',
    '1 if the log can be read, and is not known to refuse appends.',
  );
  readonly #reconnections = this.#counter(
    'event_store_reconnections_total',
    'Connections to EventStoreDB that replaced another one.',
  );
  readonly #leaderChanges = this.#counter(
    'event_store_leader_changes_total',
    'Changes of the leader of an EventStoreDB cluster that the service noticed.',
  );
  readonly #subscriptionDrops = this.#counter(
    'event_store_subscription_drops_total',
    'Subscriptions to EventStoreDB that were dropped.',
  );
  readonly #viewReady = this.#gauge('view_ready', '1 if the view can be read.', ['view']);
  readonly #lagEvents = this.#gauge('view_lag_events', 'Events of the log that the view lacks.', ['view']);
  readonly #lagSeconds = this.#gauge(
    'view_lag_seconds',
    'Time since the first event occurred that the view lacks; 0 if it lacks none.',
    ['view'],
  );
  readonly #rebuilds = this.#counter('view_rebuilds_total', 'Rebuilds of the view.', ['view']);
  readonly #saveFailures = this.#counter('view_save_failures_total', 'Failures to save the view.', ['view']);
  readonly #treeSize = this.#gauge('merkle_tree_size', 'Leaves of the Merkle tree, as last saved.');
  readonly #treeFailures = this.#counter('merkle_tree_failures_total', 'Failures of the thread of the tree.');
  readonly #checkpointsRefused = this.#gauge(
    'checkpoints_refused',
    '1 if the last checkpoint could not be signed, for this reason.',
    ['reason'],
  );
  readonly #eventStreams = this.#gauge('event_streams', 'Open event streams: live readers of /events.');
  readonly #listsInFlight = this.#gauge(
    'lists_in_flight',
    'Lists of plants that wait for the view, or are being sent.',
  );
  readonly #fileBytes = this.#gauge('file_size_bytes', 'Files of the log and of the views.', ['file']);
  readonly #fileSystemSize = this.#gauge('filesystem_size_bytes', 'The file system of the data directory.');
  readonly #fileSystemFree = this.#gauge('filesystem_avail_bytes', 'What is free in this file system.');

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    for (const reason of TOKEN_REJECTIONS) this.#tokensRefused.inc({ reason }, 0);
    for (const outcome of Object.values(APPEND_OUTCOMES)) this.#appends.inc({ outcome }, 0);
    this.onCheckpoints(undefined);
  }

  /** The media type of `text`. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics in the text format, with these measurements. */
  text(measured: Measurements): Promise<string> {
    this.#available.set(Number(measured.storeAvailable));
    for (const metric of [this.#viewReady, this.#lagEvents, this.#lagSeconds, this.#fileBytes])
      metric.reset();
    for (const metric of [this.#rebuilds, this.#saveFailures, this.#treeFailures]) metric.reset();
    for (const { name: view, isReady, lag, rebuilds, saveFailures } of measured.views) {
      this.#viewReady.set({ view }, Number(isReady));
      this.#rebuilds.inc({ view }, rebuilds);
      if (lag) this.#lagEvents.set({ view }, lag.events);
      if (lag?.seconds !== undefined) this.#lagSeconds.set({ view }, lag.seconds);
      if (saveFailures !== undefined) this.#saveFailures.inc({ view }, saveFailures);
    }
    setOrRemove(this.#treeSize, measured.merkleTree?.size);
    if (measured.merkleTree) this.#treeFailures.inc(measured.merkleTree.failures);
    else this.#treeFailures.remove();
    this.#eventStreams.set(measured.eventStreams);
    this.#listsInFlight.set(measured.listsInFlight);
    for (const [file, bytes] of measured.files) this.#fileBytes.set({ file }, bytes);
    setOrRemove(this.#fileSystemSize, measured.fileSystem?.size);
    setOrRemove(this.#fileSystemFree, measured.fileSystem?.free);
    return this.#registry.metrics();
  }

  onRequest({ method, route = 'unmatched', status, seconds }: Request): void {
    const labels = { method: METHODS.has(method) ? method : 'other', route, status: status ?? 'none' };
    this.#requests.observe(labels, seconds);
  }

  onTokenRefused(reason: TokenRejection): void {
    this.#tokensRefused.inc({ reason });
  }

  onCheckpoints(refusal: CheckpointRefusal | undefined): void {
    for (const reason of CHECKPOINT_REFUSALS)
      this.#checkpointsRefused.set({ reason }, Number(reason === refusal));
  }

  onAppends(outcome: keyof typeof APPEND_OUTCOMES, count: number): void {
    this.#appends.inc({ outcome: APPEND_OUTCOMES[outcome] }, count);
  }

  onCommit(appends: number, seconds: number): void {
    this.#commitSeconds.observe(seconds);
    this.#commitAppends.observe(appends);
  }

  onUncleanStop(): void {
    this.#uncleanStop.set(1);
  }

  onReconnect(): void {
    this.#reconnections.inc();
  }

  onLeaderChange(): void {
    this.#leaderChanges.inc();
  }

  onSubscriptionDropped(): void {
    this.#subscriptionDrops.inc();
  }

  #counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name: PREFIX + name, help, labelNames, registers: [this.#registry] });
  }

  #gauge<L extends string = never>(name: string, help: string, labelNames: L[] = []): Gauge<L> {
    return new Gauge({ name: PREFIX + name, help, labelNames, registers: [this.#registry] });
  }

  #histogram<L extends string = never>(name: string, help: string, buckets: number[], labelNames: L[] = []) {
    return new Histogram<L>({
      name: PREFIX + name,
      help,
      buckets,
      labelNames,
      registers: [this.#registry],
    });
  }
}

function setOrRemove(gauge: Gauge, value: number | undefined): void {
  if (value === undefined) gauge.remove();
  else gauge.set(value);
}
