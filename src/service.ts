import { promisify } from 'node:util';
import { auditMetrics, type Transparency } from '@event-sourced/audit';
import { newEventId, START } from '@event-sourced/event-log';
import { lockDataDir, removeDrafts, WalThread } from '@event-sourced/event-log/disk';
import { type Progress, ReadYourWrites } from '@event-sourced/event-log/views';
import { serveMetrics } from '@event-sourced/http';
import { freeAddress, openFiles } from '@event-sourced/node/process';
import {
  CheckpointFiles,
  Checkpoints,
  type LogKey,
  loadLogKey,
} from '@event-sourced/transparency-log/signer';
import type { FastifyBaseLogger } from 'fastify';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { Erasures } from './erasures.ts';
import { logIssued } from './issuedTokens.ts';
import { openStore } from './stores.ts';
import { createVerifier, fetchProviderKeys } from './tokens.ts';
import { readCommit, VERSION } from './version.ts';
import { followViews } from './views.ts';

const ADDRESS = 'PORT and HOST';
/** Open files of the service besides its connections. Without any, the kernel drops connections, and nothing is logged. */
const RESERVED_FILES = 128;
const METRICS_ADDRESS = 'METRICS_PORT and METRICS_HOST';

export type Service = {
  url: string;
  metricsUrl: string | undefined;
  /** Whether the embedded log is still empty. */
  isNew: boolean;
  /** Closes the connections that are still open; resolves with their number. */
  closeConnections(): Promise<number>;
  /** Stops accepting connections, finishes requests in flight, and closes the files. */
  close(): Promise<void>;
};

type Context = {
  logger: FastifyBaseLogger;
  trackProgress: (view: string) => (progress: Progress) => void;
  /** Called when durability can no longer be guaranteed; the process must end. */
  onFatal: (error: Error) => void;
  /** When the service closes, idle connections stay open for this time: clients may be sending requests. */
  closeIdleAfterMs: number;
};

/**
 * Starts the service: identity provider → data directory → keys → event store → views → metrics → HTTP. Ports are tried
 * first, and opened last. @throws Error for the operator
 */
export async function startService(
  config: Config,
  { logger, trackProgress, onFatal, closeIdleAfterMs }: Context,
): Promise<Service> {
  const now = () => new Date();
  // A start that fails on a port must create no files.
  const address = await useSetting(ADDRESS, () => freeAddress(config));
  const { metrics: scrape } = config;
  if (scrape) await useSetting(METRICS_ADDRESS, () => freeAddress(scrape));
  const providerKeys = await fetchProviderKeys(config, logger);
  await using resources = new AsyncDisposableStack();
  resources.use(await useSetting('DATA_DIR', async () => lockDataDir(config.dataDir)));
  await removeDrafts(config.dataDir).catch(() => {}); // to free space; the first scrub repeats it
  const { verifyToken, isNewKey } = createVerifier(config, providerKeys, now);
  const logKey = config.merkleTree ? openLogKey(config, logger) : undefined;
  // Loaded only when enabled: the modules delay a start.
  const metrics = config.metrics && new (await import('./serviceMetrics.ts')).ServiceMetrics();
  const walThread = resources.adopt(new WalThread(), (thread) => thread.close());
  const options = { logger, now, onFatal, walThread, appends: true, observer: metrics };
  const store = await openStore(config, options);
  resources.defer(() => store.close());
  // EventStoreDB may be unavailable.
  const position = config.eventStoreDb ? undefined : await store.lastPosition();
  const isNew = position === START;
  const context = { logger, resources, walThread, trackProgress };
  const { views, tree, awaited, all } = followViews(store, config, context);
  logger.info(
    {
      version: VERSION,
      commit: readCommit(),
      node: process.version,
      log: config.eventStoreDb ? 'eventstoredb' : 'sqlite',
      position: position === undefined ? undefined : String(position),
      origin: logKey?.origin,
      keyId: logKey?.verifierKey.id,
      settings: config.settings,
    },
    isNew ? 'starting with a new log' : 'starting',
  );
  if (isNewKey && !isNew && !config.eventStoreDb)
    logger.warn({ file: config.keyFile }, 'created a new key: earlier tokens are invalid');

  const logging = new AbortController();
  const logged = logIssued(config.dataDir, { logger, signal: logging.signal });
  resources.defer(() => {
    logging.abort();
    return logged;
  });

  const observer = metrics && auditMetrics(metrics, tree);
  let transparency: Transparency | undefined;
  if (tree && logKey) {
    const checkpoints = new Checkpoints({ ...config, tree, logKey, logger, observer });
    resources.defer(() => checkpoints.close());
    transparency = { tree, checkpoints, verifierKey: logKey.verifierKey };
  }

  let metricsUrl: string | undefined;
  if (metrics && config.metrics) {
    const onError = (err: unknown): void => logger.error({ err }, 'metrics failed');
    const read = metrics.reader({ ...config, store, followers: all, now });
    const options = { ...config.metrics, read, onError };
    const server = await useSetting(METRICS_ADDRESS, () => serveMetrics(options));
    resources.defer(() => server.close());
    metricsUrl = server.url;
    logger.info(`metrics at ${metricsUrl}`);
  }

  const erasures = new Erasures({
    store,
    followers: all,
    tree: transparency && {
      tree: transparency.tree,
      assertTreeExtends: () => (transparency as Transparency).checkpoints.assertTreeExtends(),
    },
    onRefused: metrics?.onErasureRefused,
    dataDir: config.dataDir,
    now,
    logger,
  });
  resources.defer(() => erasures.close());
  erasures.resume();
  const app = await buildApp({
    ...config,
    maxConnections: Math.min(config.maxConnections ?? Number.POSITIVE_INFINITY, maxConnections()),
    store,
    views,
    readYourWrites: new ReadYourWrites(awaited),
    followers: awaited,
    erasures,
    transparency,
    verifyToken,
    logger,
    now,
    newEventId,
    metrics,
    closeIdleAfterMs,
  });
  resources.defer(() => app.close());
  const url = await useSetting(ADDRESS, () =>
    app.listen({
      host: address, // for a second address, Fastify would start a server without our handlers
      port: config.port,
      listenTextResolver: (address) => `listening at ${address}`,
    }),
  );
  const opened = resources.move();
  return {
    url,
    metricsUrl,
    isNew,
    closeConnections: async () => {
      const connections = await promisify(app.server.getConnections.bind(app.server))();
      app.server.closeAllConnections();
      return connections;
    },
    close: () => opened.disposeAsync(),
  };
}

function maxConnections(): number {
  const { open, max } = openFiles();
  return Math.max(max - RESERVED_FILES, Math.floor((max - open) / 2));
}

/** @throws Error that names the setting to change */
async function useSetting<T>(setting: string, use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    throw new Error(`cannot use ${setting}: ${(error as Error).message}`, { cause: error });
  }
}

/** Opens the key of the log; the first start creates it. @throws Error if it cannot be used */
function openLogKey(config: Config, logger: FastifyBaseLogger): LogKey {
  const logKey = loadLogKey(config);
  const files = new CheckpointFiles(logKey.verifierKey, config.dataDir);
  const histories = files.earlierHistories();
  if (histories.length > 0)
    logger.warn(
      { file: files.signedFile, histories },
      'the key or the origin of the log has changed; its checkpoints start again',
    );
  return logKey;
}
