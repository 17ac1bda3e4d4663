import { join } from 'node:path';
import pino, { type BaseLogger } from 'pino';
import type { Config } from './config.ts';
import type { EventLog, EventStore } from './eventStore/eventStore.ts';
import { openEventStoreDb, Refused } from './eventStore/eventStoreDb.ts';
import { openSqliteEventStore } from './eventStore/sqlite.ts';
import { openSqliteLog, type Reading } from './eventStore/sqliteReading.ts';
import { PLANT_STREAMS } from './plants/plant.ts';

export type Log = Pick<BaseLogger, 'info' | 'warn' | 'error'>;

type Surroundings = {
  log: Log;
  now: () => Date;
  /** The disk can no longer be trusted; the process must end. */
  onFatal: (error: Error) => void;
};

/** The file of the embedded log in a data directory. */
export const logFile = (dataDir: string): string => join(dataDir, 'log.db');
/** The file of the view. */
export const viewFile = (dataDir: string): string => join(dataDir, 'view.db');

/** The configured log, for the one server of a data directory. @throws Error with a message for an operator */
export async function openStore(
  { eventStoreDb, dataDir }: Config,
  { log, now, onFatal }: Surroundings,
): Promise<EventStore> {
  return eventStoreDb
    ? connect(eventStoreDb, log)
    : openSqliteEventStore({ file: logFile(dataDir), now, onFatal });
}

/** The configured log, for reading beside its server. @throws Error with a message for an operator */
export async function openLogForReading(
  { eventStoreDb, dataDir }: Config,
  { log, ...reading }: { log: Log } & Reading,
): Promise<EventLog> {
  if (!eventStoreDb) return openSqliteLog(logFile(dataDir), reading);
  const store = await connect(eventStoreDb, log);
  try {
    await store.end(); // a subscription would wait for the server for ever
    return store;
  } catch (error) {
    await store.close();
    throw new Error(`EventStoreDB cannot be reached: ${(error as Error).message}`);
  }
}

async function connect(to: NonNullable<Config['eventStoreDb']>, log: Log): Promise<EventStore> {
  try {
    return await openEventStoreDb({ ...to, prefix: PLANT_STREAMS, log });
  } catch (error) {
    throw error instanceof Refused ? new Error(`EVENTSTOREDB_URL cannot be used: ${error.message}`) : error;
  }
}

/** A log whose warnings are lines for somebody at a command line. */
export function logTo(say: (line: string) => void): Log {
  const write = (line: string): void => {
    const { msg, reason } = JSON.parse(line);
    say(`${msg} (${reason})`);
  };
  return pino({ level: 'warn' }, { write });
}
