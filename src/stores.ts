import { join } from 'node:path';
import {
  type ErasableStore,
  type EventLog,
  type EventStore,
  LogDamaged,
  type Logger,
  NO_LOG_ID,
  type StoreObserver,
} from '@event-sourced/event-log';
import { logFile, type WalThread } from '@event-sourced/event-log/disk';
import { type LogReaderOptions, openLogReader, openSqliteStore } from '@event-sourced/event-log/sqlite';
import { ErasedFile } from '@event-sourced/transparency-log/erasure';
import { assertNoFormerLog, filesBesideLog } from './formerLog.ts';
import { PLANT_STREAM_PREFIX } from './plants/stream.ts';

/** The service's streams in EventStoreDB, which other programs may use too. */
export const STREAMS = { prefix: PLANT_STREAM_PREFIX, identityStream: 'plantstore' };

/** A log in EventStoreDB; messages name `setting` as the source of its connection string. */
type EventStoreDbLocation = Readonly<{ url: string; timeoutMs: number; setting: string }>;

/** The location of a log: EventStoreDB, or a data directory with an embedded log. */
export type LogLocation = Readonly<{ dataDir: string; eventStoreDb?: EventStoreDbLocation }>;

type Context = {
  logger: Logger;
  now: () => Date;
  /** Called when durability can no longer be guaranteed; the process must end. */
  onFatal: (error: Error) => void;
  /** The thread of WAL checkpoints that all files of the process share; by default the log has its own. */
  walThread?: WalThread;
  /** Whether to check that the account of EventStoreDB may append; false by default. */
  appends?: boolean;
  observer?: StoreObserver | undefined;
};

/** The file of a data directory that names what was erased. */
export const erasedFile = (dataDir: string): ErasedFile =>
  new ErasedFile(join(dataDir, 'erased'), PLANT_STREAM_PREFIX);

/**
 * Opens the event store for its only writer on this machine. An empty log must be the first log of its data directory. In a
 * restored one, erasures are repeated. @throws Error for the operator
 */
export async function openStore(
  { dataDir, eventStoreDb }: LogLocation,
  { logger, appends = false, observer, ...options }: Context,
): Promise<EventStore> {
  if (!eventStoreDb) {
    const store = await openSqliteStore({
      file: logFile(dataDir),
      ...options,
      observer,
      onEmpty: (exists) => assertNoFormerLog(dataDir, exists),
      onCheck: (checked) => logCheck(checked, logger),
      onDamage: ({ message }) => logger.error({ reason: message }, 'log damaged; no more appends'),
      onUnreadable: (reason) => logger.error({ reason }, 'the disk cannot read the log'),
    });
    await repeatErasures(store, dataDir, { ...options, logger }).catch(async (cause: Error) => {
      await store.close();
      throw new Error(`cannot repeat erasures of ${join(dataDir, 'erased')}: ${cause.message}`, { cause });
    });
    return store;
  }
  const onEmpty = () => assertNoFormerLog(dataDir, false);
  const store = await connect(eventStoreDb, { logger, appends, observer, onEmpty });
  try {
    // If the server is unavailable, `onEmpty` repeats the check before the first event.
    const isEmpty = async () => (await store.logId().catch(() => undefined)) === NO_LOG_ID;
    if (filesBesideLog(dataDir).length > 0 && (await isEmpty())) onEmpty();
    return store;
  } catch (error) {
    await store.close();
    throw new Error(`cannot use ${eventStoreDb.setting}: ${(error as Error).message}`, { cause: error });
  }
}

/** @throws Error for the operator, such as of a full disk: erased persons must not be shown */
async function repeatErasures(
  store: ErasableStore,
  dataDir: string,
  { logger, now }: Pick<Context, 'logger' | 'now'>,
): Promise<void> {
  const { others, ...repeated } = await erasedFile(dataDir).repeat(store, now);
  if (repeated.events > 0) logger.warn(repeated, 'erased again what a restore has brought back');
  if (others > 0)
    logger.warn({ events: others }, 'other events are in the places of erased ones; they were not erased');
}

async function logCheck(checked: Promise<void>, logger: Logger): Promise<void> {
  logger.info('checking the log after an unclean stop');
  try {
    await checked;
    logger.info('log checked');
  } catch (error) {
    const { message } = error as Error;
    if (!(error instanceof LogDamaged))
      logger.warn({ reason: message }, 'the log could not be checked; run verify');
  }
}

/** Opens the log for reading; a server may be running. @throws Error for the operator */
export async function openLog(
  { dataDir, eventStoreDb }: LogLocation,
  { logger, ...options }: LogReaderOptions & { logger: Logger },
): Promise<EventLog> {
  if (!eventStoreDb) return openLogReader(logFile(dataDir), options);
  const store = await connect(eventStoreDb, { logger });
  try {
    await store.lastPosition(); // a subscription would wait for the server forever
    return store;
  } catch (error) {
    await store.close();
    throw new Error(`EventStoreDB is unavailable: ${(error as Error).message}`, { cause: error });
  }
}

async function connect(
  { url, timeoutMs, setting }: EventStoreDbLocation,
  options: { logger: Logger; appends?: boolean; observer?: StoreObserver | undefined; onEmpty?: () => void },
): Promise<EventStore> {
  // Loaded only by the threads and commands that need it.
  const { AccessDenied, openEventStoreDb } = await import('@event-sourced/event-store-db');
  try {
    return await openEventStoreDb({ url, timeoutMs, ...STREAMS, ...options });
  } catch (error) {
    throw error instanceof AccessDenied
      ? new Error(`cannot use ${setting}: ${error.message}`, { cause: error })
      : error;
  }
}
