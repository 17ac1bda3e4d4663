import { existsSync, realpathSync } from 'node:fs';
import { DataDirInUse, lockDataDir, logFile } from '../disk/dataDir.ts';
import { fileSize } from '../disk/sqlite.ts';
import type { EventStore } from '../eventStore/eventStore.ts';
import { connectionStringProblem, withEsdbScheme } from '../eventStore/eventStoreDb/connectionString.ts';
import { type Logger, type LogLocation, openStore } from '../stores.ts';

/** A mistyped connection string must not become a directory, with its password in the name and in messages. */
const LOOKS_LIKE_URL = /:\/\/|^[^./].*@/s;

/** Of a server that is unavailable. */
const COPY_TIMEOUT_MS = 30_000;

/** Parses the value of --from or --to: a connection string or a directory. @throws Error that does not quote it */
export function parseLocation(setting: string, text: string): LogLocation {
  const problem = connectionStringProblem(text);
  if (problem === undefined)
    return { dataDir: '', eventStoreDb: { url: withEsdbScheme(text), timeoutMs: COPY_TIMEOUT_MS, setting } };
  if (text === '') throw new Error(`${setting} must be a connection string or a directory`);
  if (LOOKS_LIKE_URL.test(text)) throw new Error(`${setting} ${problem}`);
  return { dataDir: text };
}

export function isSameLocation(one: LogLocation, other: LogLocation): boolean {
  if (one.eventStoreDb || other.eventStoreDb) return one.eventStoreDb?.url === other.eventStoreDb?.url;
  if (!existsSync(one.dataDir) || !existsSync(other.dataDir)) return false;
  return realpathSync.native(one.dataDir) === realpathSync.native(other.dataDir);
}

type Options = { mustExist: boolean; logger: Logger; onFatal: (error: Error) => void };

/**
 * Opens the log at a location, to be read exactly, until `resources` are disposed of; if it must exist, a data
 * directory must have it. The directory is locked. @throws Error with a message for the operator
 */
export async function useStoreAt(
  location: LogLocation,
  { mustExist, logger, onFatal }: Options,
  resources: AsyncDisposableStack,
): Promise<EventStore> {
  const { dataDir, eventStoreDb } = location;
  if (!eventStoreDb) {
    // A first start that was interrupted leaves an empty file.
    if (mustExist && fileSize(logFile(dataDir)) === 0) throw new Error(`there is no log in ${dataDir}`);
    try {
      resources.use(lockDataDir(dataDir));
    } catch (error) {
      throw error instanceof DataDirInUse
        ? new Error(`${error.message}; stop it first`, { cause: error })
        : error;
    }
  }
  const store = await openStore(location, { logger, now: () => new Date(), onFatal, exact: true });
  resources.defer(() => store.close());
  return store;
}
