import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { fileIdentity } from '../disk/fileIdentity.ts';
import { assertWritable } from '../disk/sqlite.ts';
import { type EventLog, type Position, START } from '../eventStore.ts';
import { assertIsLog, assertWalFits, isInWalMode } from './file.ts';
import { readsOf } from './read.ts';

/** What was proven of a backup when it was made: a log of `size` events, up to a position, has this Merkle root. */
export type BackupHead = { size: number; root: string; position: Position };

/** A backup is a log file that is not in WAL mode, with one more table. */
export const BACKUP_TABLE = 'backup';
const BACKUP_SCHEMA = `
  CREATE TABLE IF NOT EXISTS ${BACKUP_TABLE} (size INTEGER NOT NULL, root TEXT NOT NULL, position INTEGER NOT NULL) STRICT;
  DELETE FROM ${BACKUP_TABLE};`;

const COLUMNS = 'position, id, stream, revision, type, data, metadata, recorded_at';
/** Copied per turn of the event loop. */
const BATCH_SIZE = 10_000;
/** Of the indexes, in KiB. */
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
 * An open backup, and one transaction: `commit` ends it durably. Whatever happens before, the file is as it was, at the
 * latest when SQLite opens it next, which finds `…-journal` beside it.
 */
export class LogBackup implements Disposable {
  /** Undefined if the file is not, or no longer, what an earlier backup has left. */
  readonly head: BackupHead | undefined;
  /** What it has, and what was appended to it, read raw. */
  readonly events: Pick<EventLog, 'lastPosition' | 'readAll' | 'readEvent'>;
  readonly #db: DatabaseSync;

  /** @throws Error if the file is not a backup of the log, or has other events; it is not changed */
  constructor(file: string, logFile: string) {
    if (!statSync(file).isFile()) throw new Error('it is not a file');
    if (fileIdentity(file) === fileIdentity(logFile)) throw new Error('it is the log itself');
    assertWalFits(file);
    if (isInWalMode(file)) throw new Error('it is the log of a service, not a backup');
    assertWritable(file);
    using opening = new DisposableStack();
    const log = pathToFileURL(logFile);
    log.searchParams.set('mode', 'ro'); // https://sqlite.org/uri.html
    // In a directory that cannot be written, SQLite reads a closed log without the files that it shares with a writer.
    if (!existsSync(`${logFile}-wal`) && !canWrite(dirname(logFile))) log.searchParams.set('immutable', '1');
    this.#db = opening.use(new DatabaseSync(pathToFileURL(file)));
    assertIsLog(this.#db);
    this.#db.exec(`PRAGMA synchronous = EXTRA; PRAGMA cache_size = -${CACHE_SIZE_KIB}`);
    this.#db.prepare('ATTACH ? AS source').run(log.href);
    this.#db.exec('BEGIN IMMEDIATE');
    this.events = readsOf(this.#db, { raw: true });
    this.#assertOfSource();
    this.head = this.#readHead();
    opening.move();
  }

  #assertOfSource(): void {
    const isOfLog = this.#db.prepare('SELECT 1 FROM main.log JOIN source.log USING (id)').get();
    if (!isOfLog) throw new Error('it is a backup of another log');
    const [last] = this.#db
      .prepare('SELECT position, id FROM main.events ORDER BY position DESC LIMIT 1')
      .all();
    const inLog = this.#db.prepare('SELECT 1 FROM source.events WHERE position = :position AND id = :id');
    if (last && !inLog.get(last)) throw new Error('it has events that the log does not have');
  }

  #readHead(): BackupHead | undefined {
    const table = this.#db.prepare('SELECT 1 FROM main.sqlite_schema WHERE name = ?').get(BACKUP_TABLE);
    if (!table) return undefined;
    const select = this.#db.prepare(`
      SELECT size, root, position FROM main.${BACKUP_TABLE}
      WHERE position = (SELECT coalesce(max(position), ${START}) FROM main.events)`);
    select.setReadBigInts(true);
    const head = select.get() as { size: bigint; root: string; position: bigint } | undefined;
    return head && { ...head, size: Number(head.size) };
  }

  /** Copies the events that the log has after the last one. @throws Error, also if the signal aborts */
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

  commit({ size, root, position }: BackupHead): void {
    if (this.head?.size !== size || this.head.root !== root) {
      this.#db.exec(BACKUP_SCHEMA);
      this.#db.prepare(`INSERT INTO main.${BACKUP_TABLE} VALUES (?, ?, ?)`).run(size, root, position);
    }
    this.#db.exec('COMMIT');
  }

  /** Closes the file; without a commit, nothing was changed. */
  [Symbol.dispose](): void {
    this.#db.close();
  }
}
