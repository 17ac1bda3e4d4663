import type { AppendOutcome, EventStore, StoreObserver } from '@event-sourced/event-log';
import { logFile } from '@event-sourced/event-log/disk';
import { type Follower, viewLag } from '@event-sourced/event-log/views';
import { Metrics } from '@event-sourced/http/metrics';
import { unlessAborted } from '@event-sourced/node/time';
import type { Config } from './config.ts';
import { type LastResult, lastResult } from './jobs.ts';
import { readCommit, VERSION } from './version.ts';
import { viewFiles } from './views.ts';

type Sources = Pick<Config, 'dataDir' | 'eventStoreDb'> & {
  store: EventStore;
  /** One for each view, including the Merkle tree. */
  followers: readonly Follower[];
  now: () => Date;
};

/** Below the default timeout of Prometheus, 10 000 ms. */
const STORE_TIMEOUT_MS = 2_000;

const APPEND_OUTCOMES = { stored: 'stored', wrongRevision: 'wrong_revision', failed: 'failed' };
const COMMIT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const COMMIT_APPENDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** The metrics of the service. The methods `on…` count events as they happen; each scrape measures the rest. */
export class ServiceMetrics extends Metrics implements StoreObserver {
  readonly #buildInfo = this.gauge(
    'build_info',
    'Always 1; the labels are the version and the commit of the service, the version of Node, and the kind of event store.',
    ['version', 'commit', 'node', 'log'],
  );
  readonly #appends = this.counter('appends_total', 'Appends to the log, by outcome.', ['outcome']);
  readonly #commitSeconds = this.histogram(
    'commit_duration_seconds',
    'Transactions of the embedded log, including their fsync.',
    COMMIT_SECONDS,
  );
  readonly #commitAppends = this.histogram(
    'commit_batch_size',
    'Appends per transaction of the embedded log.',
    COMMIT_APPENDS,
  );
  readonly #uncleanStop = this.gauge(
    'started_after_unclean_stop',
    '1 if the log was written and not closed before this start: after a kill, a power cut, or a failed fsync.',
  );
  readonly #available = this.gauge(
    'event_store_available',
    '1 if the log can be read and no append is being refused.',
  );
  readonly #logPosition = this.gauge(
    'log_position',
    'Position of the last event of the log; no value while the log is unavailable.',
    ['log'],
  );
  readonly #reconnections = this.counter('event_store_reconnections_total', 'Reconnections to EventStoreDB.');
  readonly #leaderChanges = this.counter(
    'event_store_leader_changes_total',
    'Leader changes of the EventStoreDB cluster, as observed by the service.',
  );
  readonly #subscriptionDrops = this.counter(
    'event_store_subscription_drops_total',
    'Dropped subscriptions to EventStoreDB.',
  );
  readonly #erasuresRefused = this.counter(
    'erasures_refused_total',
    'Erasures that were refused: an event is not the one in the Merkle tree, or the tree contradicts a checkpoint.',
  );
  readonly #viewReady = this.gauge('view_ready', '1 if the view can be read.', ['view']);
  readonly #lagEvents = this.gauge('view_lag_events', 'Events of the log that the view has not applied.', [
    'view',
  ]);
  readonly #lagSeconds = this.gauge(
    'view_lag_seconds',
    'Age of the first event that the view has not applied; 0 if the view is up to date.',
    ['view'],
  );
  readonly #rebuilds = this.counter('view_rebuilds_total', 'Rebuilds of the view.', ['view']);
  readonly #saveFailures = this.counter('view_save_failures_total', 'Failures to save the view.', ['view']);

  constructor() {
    super('plant_store_');
    for (const outcome of Object.values(APPEND_OUTCOMES)) this.#appends.inc({ outcome }, 0);
  }

  onAppends(outcome: AppendOutcome, count: number): void {
    this.#appends.inc({ outcome: APPEND_OUTCOMES[outcome] }, count);
  }

  onCommit(appends: number, seconds: number): void {
    this.#commitSeconds.observe(seconds);
    this.#commitAppends.observe(appends);
  }

  onUncleanStop = () => this.#uncleanStop.set(1);
  onReconnect = () => this.#reconnections.inc();
  onLeaderChange = () => this.#leaderChanges.inc();
  onSubscriptionDropped = () => this.#subscriptionDrops.inc();
  onErasureRefused = () => this.#erasuresRefused.inc();

  /** Returns a function that measures and reads all metrics. Unknown metrics have no value. */
  reader(sources: Sources): Metrics['read'] {
    const { dataDir, store, followers, now } = sources;
    const log = sources.eventStoreDb ? 'eventstoredb' : 'sqlite';
    this.#buildInfo.set({ version: VERSION, commit: readCommit() ?? '', node: process.version, log }, 1);
    const files = [logFile(dataDir), ...viewFiles(dataDir)];
    this.measureFiles([...files, ...files.map((file) => `${file}-wal`)], dataDir);

    for (const job of ['backup', 'verify'] as const) {
      const read = async (value: (result: LastResult) => number): Promise<number | undefined> => {
        const result = await lastResult(dataDir, job);
        const isExpected = !sources.eventStoreDb || result.succeededAt > 0; // of many instances, one may verify
        return isExpected ? value(result) : undefined;
      };
      this.measure(`last_${job}_timestamp_seconds`, `Time of the last successful ${job}; 0 if none.`, () =>
        read(({ succeededAt }) => succeededAt / 1_000),
      );
      this.measure(`last_${job}_failed`, `1 if the last ${job} has failed.`, () =>
        read(({ hasFailed }) => Number(hasFailed)),
      );
    }

    return async () => {
      const signal = AbortSignal.timeout(STORE_TIMEOUT_MS);
      const position = await respondsIn(signal, store.lastPosition());
      const lags = await Promise.all(
        followers.map(({ view }) => respondsIn(signal, viewLag(store, view.progress.position, now()))),
      );

      this.#available.set(Number(position !== undefined && store.appendsRefused === undefined));
      this.#logPosition.reset();
      if (position !== undefined) this.#logPosition.set({ log }, Number(position));
      for (const metric of [this.#lagEvents, this.#lagSeconds]) metric.reset();
      for (const metric of [this.#rebuilds, this.#saveFailures]) metric.reset();
      followers.forEach((follower, i) => {
        const lag = lags[i];
        const view = follower.view.name;
        this.#viewReady.set({ view }, Number(follower.notReady === undefined));
        this.#rebuilds.inc({ view }, follower.rebuilds);
        this.#saveFailures.inc({ view }, follower.saveFailures);
        if (lag) this.#lagEvents.set({ view }, lag.events);
        if (lag?.seconds !== undefined) this.#lagSeconds.set({ view }, lag.seconds);
      });
      return this.read();
    };
  }
}

/** The value of a promise; undefined if the promise rejects or the signal aborts first. */
function respondsIn<T>(signal: AbortSignal, promise: Promise<T>): Promise<T | undefined> {
  return unlessAborted(promise, signal).catch(() => undefined);
}
