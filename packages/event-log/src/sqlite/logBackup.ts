import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { assertRecorded } from '../assertRecorded.ts';
import { fileIdentity } from '../disk/fileIdentity.ts';
import { assertWritable, fileSize, prepareArrays } from '../disk/sqlite.ts';
import { EVENT_ERASED } from '../erasure.ts';
import { type EventLog, type Position, type RecordedEvent, START } from '../eventStore.ts';
import { assertIsLog, assertWalFits, HAS_STUBS, isInWalMode } from './file.ts';
import {
  isUnscrubbed,
  keepFromEarlierPrograms,
  overwriteEvents,
  rewritePages,
  type StubRow,
  setScrubbed,
} from './overwrite.ts';
import { prepareReads } from './read.ts';

const COLUMNS = 'position, id, stream, revision, type, data, metadata, recorded_at';
/** The number of events copied per turn of the event loop. */
const BATCH_SIZE = 10_000;
/** For the pages of the indexes. */
const CACHE_SIZE_KIB = 65_536;

type Options = {
  /** The leaf hash of an event. */
  leafOf: (event: RecordedEvent) => string;
  /** The prefix of the streams of stubs and records. */
  prefix: string;
  signal: AbortSignal;
};

function canWrite(dir: string): boolean {
  try {
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * An open backup with one open transaction, which `commit` commits durably. If the process ends before the commit, the
 * file is restored, at the latest when SQLite next opens it and finds its `…-journal`.
 */
export class LogBackup implements Disposable {
  /** The events of the backup, including appended ones, for hashing. */
  readonly events: Pick<EventLog, 'lastPosition' | 'readAll' | 'readEvent'>;
  readonly #db: DatabaseSync;

  /** @throws Error if the file is not a backup of the log, or has different events; then it is unchanged */
  constructor(file: string, logFile: string) {
    if (!statSync(file).isFile()) throw new Error('it is not a file');
    if (fileSize(file) === 0) throw new Error('it is empty: remove it, for a new backup');
    if (fileIdentity(file) === fileIdentity(logFile)) throw new Error('it is the log itself');
    assertWalFits(file);
    if (isInWalMode(file)) throw new Error('it is the log of a service, not a backup');
    assertWritable(file);
    using opening = new DisposableStack();
    const log = pathToFileURL(logFile);
    log.searchParams.set('mode', 'ro'); // https://sqlite.org/uri.html
    // In a read-only directory, SQLite can read a closed log only without the files that it shares with a writer.
    if (!existsSync(`${logFile}-wal`) && !canWrite(dirname(logFile))) log.searchParams.set('immutable', '1');
    this.#db = opening.use(new DatabaseSync(pathToFileURL(file)));
    assertIsLog(this.#db);
    this.#db.exec(
      `PRAGMA synchronous = EXTRA; PRAGMA secure_delete = ON; PRAGMA cache_size = -${CACHE_SIZE_KIB}`,
    );
    this.#db.prepare('ATTACH ? AS source').run(log.href);
    this.#db.exec('BEGIN IMMEDIATE');
    this.events = prepareReads(this.#db, { forHashing: true });
    this.#assertOfSource();
    opening.move();
  }

  #assertOfSource(): void {
    const hasSameLogId = this.#db.prepare('SELECT 1 FROM main.log JOIN source.log USING (id)').get();
    if (!hasSameLogId) throw new Error('it is a backup of another log');
    const [last] = this.#db
      .prepare('SELECT position, id FROM main.events ORDER BY position DESC LIMIT 1')
      .all();
    const inLog = this.#db.prepare(
      `SELECT 1 FROM source.events WHERE position = :position AND (id = :id OR type = '${EVENT_ERASED}')`,
    );
    if (last && !inLog.get(last)) throw new Error('it has events that the log does not have');
  }

  /**
   * Erases what the log has erased, and copies the events that the backup lacks. @throws Error, also if a stub of the log is
   * not of the event in the backup, or no record names it, or if the signal aborts
   */
  async append({ leafOf, prefix, signal }: Options): Promise<void> {
    const stubs = await this.#erase(leafOf); // first: later events of the log may have the erased streams again
    const insert = this.#db.prepare(`
      INSERT INTO main.events (${COLUMNS}) SELECT ${COLUMNS} FROM source.events
      WHERE position > (SELECT coalesce(max(position), ${START}) FROM main.events) AND position <= ?
      ORDER BY position LIMIT ${BATCH_SIZE}`);
    const last = this.#db.prepare(`SELECT coalesce(max(position), ${START}) AS position FROM source.events`);
    last.setReadBigInts(true);
    const { position: end } = last.get() as { position: Position };
    while (insert.run(end).changes > 0) {
      await nextTurn();
      signal.throwIfAborted();
    }
    await assertRecorded(this.events, stubs, prefix);
  }

  /** Resolves with the stubs that replace events of the backup. */
  async #erase(leafOf: Options['leafOf']): Promise<RecordedEvent[]> {
    const { user_version: version } = this.#db.prepare('PRAGMA source.user_version').get() as {
      user_version: number;
    };
    if (version < HAS_STUBS) return [];
    keepFromEarlierPrograms(this.#db);
    const rows = prepareArrays(
      this.#db,
      `SELECT position, log.id, log.stream, log.type, log.data, log.metadata
      FROM source.events AS log JOIN main.events AS copy USING (position)
      WHERE log.type = '${EVENT_ERASED}' AND copy.id <> log.id`,
    ).all() as unknown as StubRow[];
    if (rows.length === 0) return [];
    const read = () =>
      Promise.all(rows.map(async ([at]) => (await this.events.readEvent(at)) as RecordedEvent));
    const leaves = (await read()).map(leafOf);
    overwriteEvents(this.#db, rows);
    const stubs = await read();
    for (const [i, { position, erased }] of stubs.entries())
      if (erased !== leaves[i])
        throw new Error(
          `the log has a stub at position ${position} that is not of the event in the backup; one of them may have been altered: run verify`,
        );
    return stubs;
  }

  /** Commits the backup, and then removes bytes of erased events. */
  commit(): void {
    this.#db.exec('COMMIT');
    if (!isUnscrubbed(this.#db)) return;
    rewritePages(this.#db);
    setScrubbed(this.#db);
  }

  /** Closes the file; without a commit, it is unchanged. */
  [Symbol.dispose](): void {
    this.#db.close();
  }
}
