import { existsSync, realpathSync } from 'node:fs';
import type { EventStore, Logger } from '@event-sourced/event-log';
import { DataDirInUse, lockDataDir, logFile } from '@event-sourced/event-log/disk';
import { CONNECTION_STRING } from '@event-sourced/event-store-db';
import { fileSize } from '@event-sourced/node/files';
import { type LogLocation, openStore } from '../stores.ts';

/** A mistyped connection string must not become the name of a directory, which would show the password. */
const LOOKS_LIKE_URL = /:\/\/|^[^./].*@/s;

/** For each call to a server. */
const COPY_TIMEOUT_MS = 30_000;

/** Parses the value of --from or --to: a connection string or a directory. @throws Error that does not quote it */
export function parseLocation(setting: string, text: string): LogLocation {
  if (new RegExp(CONNECTION_STRING).test(text))
    return { dataDir: '', eventStoreDb: { url: text, timeoutMs: COPY_TIMEOUT_MS, setting } };
  if (text === '') throw new Error(`${setting} must be a connection string or a directory`);
  if (LOOKS_LIKE_URL.test(text))
    throw new Error(
      `${setting} must be a connection string such as esdb://user:password@host:2113?tls=true; in a password, : @ and % are written as %3A %40 %25`,
    );
  return { dataDir: text };
}

export function isSameLocation(a: LogLocation, b: LogLocation): boolean {
  const [urlA, urlB] = [a, b].map(({ eventStoreDb }) => eventStoreDb?.url.replace(/^[a-z]+/, 'esdb'));
  if (urlA !== undefined || urlB !== undefined) return urlA === urlB;
  if (!existsSync(a.dataDir) || !existsSync(b.dataDir)) return false;
  return realpathSync.native(a.dataDir) === realpathSync.native(b.dataDir);
}

type Options = { mustExist: boolean; logger: Logger; onFatal: (error: Error) => void };

/** Opens and locks the log at a location; `resources` closes it. @throws Error for the operator */
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
  const store = await openStore(location, { logger, now: () => new Date(), onFatal });
  resources.defer(() => store.close());
  return store;
}
