import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { fileIdentity } from '../disk/fileIdentity.ts';
import { assertWritable, fileSize } from '../disk/sqlite.ts';
import { EVENT_ERASED } from '../erasure/erasure.ts';
import { type EventLog, type Position, START } from '../eventStore.ts';
import { assertIsLog, assertWalFits, HAS_STUBS, isInWalMode } from './file.ts';
import { setScrubbed } from './overwrite.ts';
import { prepareReads } from './read.ts';

const COLUMNS = 'position, id, stream, revision, type, data, metadata, recorded_at';
/** The number of events copied per turn of the event loop. */
const BATCH_SIZE = 10_000;
/** For the pages of the indexes. */
const CACHE_SIZE_KIB = 65_536;

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
    this.#assertNotErased();
    const inLog = this.#db.prepare('SELECT 1 FROM source.events WHERE position = :position AND id = :id');
    if (last && !inLog.get(last)) throw new Error('it has events that the log does not have');
  }

  #assertNotErased(): void {
    if (!this.#sourceHasStubs) return;
    const erased = this.#db.prepare(`
      SELECT 1 FROM source.events AS log JOIN main.events AS copy USING (position)
      WHERE log.type = '${EVENT_ERASED}' AND copy.id <> log.id LIMIT 1`);
    if (erased.get())
      throw new Error('the log has erased events that it still has: remove it, and make a new backup');
  }

  get #sourceHasStubs(): boolean {
    const { user_version: version } = this.#db.prepare('PRAGMA source.user_version').get() as {
      user_version: number;
    };
    return version >= HAS_STUBS;
  }

  /** Copies the events that the backup lacks. @throws Error, also if the signal aborts */
  async append(signal: AbortSignal): Promise<void> {
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
  }

  /** Commits the backup. Nothing was overwritten in its file, so it is scrubbed. */
  commit(): void {
    if (this.#sourceHasStubs) setScrubbed(this.#db);
    this.#db.exec('COMMIT');
  }

  /** Closes the file; without a commit, it is unchanged. */
  [Symbol.dispose](): void {
    this.#db.close();
  }
}
