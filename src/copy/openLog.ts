import { existsSync, realpathSync } from 'node:fs';
import { takeDataDir } from '../dataDir.ts';
import type { EventStore } from '../eventStore/eventStore.ts';
import { openEventStoreDb } from '../eventStore/eventStoreDb.ts';
import { asEsdb, connectionStringFault } from '../eventStore/eventStoreDbUrl.ts';
import { openSqliteEventStore } from '../eventStore/sqlite.ts';
import { type Log, logFile } from '../openStore.ts';
import { PLANT_STREAMS } from '../plants/plant.ts';
import { fileSize } from '../sqliteDatabase.ts';

/** Where a log is: behind a connection string of EventStoreDB, or in a data directory. */
export type Place = { url: string } | { dir: string };

type Surroundings = {
  /** Whether there has to be a log in the data directory already. */
  mustExist: boolean;
  log: Log;
  /** The disk can no longer be trusted; the process must end. */
  onFatal: (error: Error) => void;
};

/** A mistyped connection string must not become a directory, with its password in the name and in messages. */
const LIKE_A_URL = /:\/\/|^[^./].*@/s;

/** For a server that is away, in milliseconds: four fifths of it to append, the rest to read. */
const PATIENCE = 30_000;

/** @throws Error that says what the text must be, without quoting it */
export function placeOf(text: string): Place {
  const fault = connectionStringFault(text);
  if (fault === undefined) return { url: asEsdb(text) };
  if (text === '') throw new Error('must be a connection string or a directory');
  if (LIKE_A_URL.test(text)) throw new Error(fault);
  return { dir: text };
}

export function isSame(one: Place, other: Place): boolean {
  if ('url' in one) return 'url' in other && one.url === other.url;
  if ('url' in other || !existsSync(one.dir) || !existsSync(other.dir)) return false;
  return realpathSync.native(one.dir) === realpathSync.native(other.dir);
}

/**
 * Opens a log until `open` is disposed of. A data directory is taken as a server takes it.
 * @throws Error with a message for an operator
 */
export async function openLog(
  place: Place,
  { mustExist, log, onFatal }: Surroundings,
  open: AsyncDisposableStack,
): Promise<EventStore> {
  if ('dir' in place) {
    if (mustExist && !holdsLog(place.dir)) throw new Error(`there is no log in the directory ${place.dir}`);
    take(place.dir, open);
  }
  const store =
    'url' in place
      ? await openEventStoreDb({ url: place.url, prefix: PLANT_STREAMS, log, patience: PATIENCE })
      : await openSqliteEventStore({ file: logFile(place.dir), now: () => new Date(), onFatal });
  open.defer(() => store.close());
  return store;
}

function take(dir: string, open: AsyncDisposableStack): void {
  try {
    const lock = takeDataDir(dir);
    open.defer(() => lock.close());
  } catch (error) {
    const { message } = error as Error;
    throw new Error(message.replace('another server is using it', '$&, which has to be stopped first'));
  }
}

/** A log without anything in it is what a first start that was cut short has left. */
function holdsLog(dir: string): boolean {
  return fileSize(logFile(dir)) > 0;
}
