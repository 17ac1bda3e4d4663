import { existsSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import {
  type EventLog,
  InvalidEvent,
  NO_LOG_ID,
  type Position,
  type RecordedEvent,
  START,
  StreamDeleted,
} from '../src/eventStore/eventStore.ts';
import { isKnownType } from '../src/plants/events.ts';
import { plantStream } from '../src/plants/stream.ts';
import { evolve, type PlantRow } from './plantsByUser.ts';
import { PLANTS_BY_USER } from './plantsFormat.ts';
import type { ViewCheckpoint } from './view.ts';
import { isDamage, openViewReader, readCheckpoint } from './viewDatabase.ts';

/** A contradiction, at a position of the log if it has one. */
export type Problem = { position?: bigint; problem: string };

/**
 * The file is ordered by user: so many rows are compared together, user by user, so that they share pages;
 * fewer if they are large.
 */
const ROWS_PER_COMPARISON = 100_000;
const CHARACTERS_PER_COMPARISON = 8 * 1024 * 1024;
/** A stream that is longer than this is read in part. */
const MAX_STREAM_LENGTH = 1_000_000;

/**
 * Compares the plantsByUser view in a file with the fold of its log, event by event, up to the checkpoint
 * that it had at the beginning. A server may be writing the file: no lock is held between reads.
 */
export class ViewComparison {
  /** The view's checkpoint at the beginning. */
  readonly checkpoint: ViewCheckpoint;
  readonly #file: string;
  readonly #log: EventLog;
  readonly #view: ReturnType<typeof open>;
  readonly #skip: ReadonlySet<string>;
  #checkpointFound: boolean;
  /** The rows that are expected since the last comparison, by user, in log order. */
  readonly #expected = new Map<string, PlantRow[]>();
  #expectedRows = 0;
  #expectedCharacters = 0;
  /** The streams of plants with later events since the last comparison. */
  readonly #changed = new Set<string>();
  #matched = 0n;
  #differs = false;
  /** The view was reset meanwhile, so nothing can be said. */
  #wasReset = false;
  /** Why the rest of the file is not compared; undefined if it is. */
  #damage: string | undefined;

  /** The view in a file; undefined if there is no file. @throws Error if it cannot be read */
  static open(log: EventLog, file: string, skip: ReadonlySet<string>): ViewComparison | undefined {
    return existsSync(file) ? new ViewComparison(log, file, skip) : undefined;
  }

  private constructor(log: EventLog, file: string, skip: ReadonlySet<string>) {
    this.#file = file;
    this.#log = log;
    this.#view = open(file);
    this.#skip = skip;
    this.checkpoint = readCheckpoint(this.#view.db);
    this.#checkpointFound = this.checkpoint.position === START;
  }

  /** Whether the view has not followed any log yet. */
  get isNew(): boolean {
    return this.checkpoint.logId === NO_LOG_ID && this.checkpoint.position === START;
  }

  /** Whether the file was found damaged. */
  get isDamaged(): boolean {
    return this.#damage !== undefined;
  }

  /** Takes the events in log order. */
  add(event: RecordedEvent): void {
    const { position } = event;
    if (position > this.checkpoint.position || this.#wasReset || this.isDamaged) return;
    if (position === this.checkpoint.position) this.#checkpointFound = event.id === this.checkpoint.eventId;
    const row = this.#evolve(undefined, event);
    if (!row && event.revision > 0n && isKnownType(event.type)) this.#changed.add(event.stream);
    if (!row) return;
    const rows = this.#expected.get(row.user);
    if (rows) rows.push(row);
    else this.#expected.set(row.user, [row]);
    this.#expectedRows++;
    this.#expectedCharacters += row.plant.length;
  }

  /** The differences found so far; to be called now and then. */
  async problems(): Promise<Problem[]> {
    const isDue =
      this.#expectedRows + this.#changed.size >= ROWS_PER_COMPARISON ||
      this.#expectedCharacters >= CHARACTERS_PER_COMPARISON;
    return isDue ? this.#differences() : [];
  }

  /** After the last event: the remaining differences, what the view has beyond the log, and damage. */
  async *remaining(): AsyncGenerator<Problem> {
    try {
      yield* this.#remaining();
    } catch (error) {
      this.#handleDamage(error);
    }
    if (this.#damage !== undefined) yield { problem: `the view ${this.#file} is damaged: ${this.#damage}` };
  }

  close(): void {
    this.#view.db.close();
  }

  async *#remaining(): AsyncGenerator<Problem> {
    yield* await this.#differences();
    if (this.isDamaged) return;
    const { position } = this.checkpoint;
    if (!this.#checkpointFound)
      yield { position, problem: 'the checkpoint of the view names an event that the log does not have' };
    const { db, statements } = this.#view;
    db.exec('BEGIN'); // one snapshot for what follows
    try {
      if (this.#checkReset()) {
        yield { problem: 'the view was rebuilt meanwhile: verify again' };
        return;
      }
      for (const row of statements.after.iterate(readCheckpoint(this.#view.db).position)) {
        const { position, user, plant } = row as PlantRow;
        this.#differs = true;
        yield { position, problem: `the view has a plant of ${quote(user)} beyond its checkpoint: ${plant}` };
      }
      if ((statements.count.get(position) as { count: bigint }).count !== this.#matched) {
        for (const row of statements.upTo.iterate(position)) {
          const { position, user, plant } = row as PlantRow;
          const event = await this.#log.readEvent(position);
          if (event && this.#evolve(undefined, event)?.user === user) continue;
          this.#differs = true;
          yield {
            position,
            problem: `the view has a plant of ${quote(user)} that the log does not have: ${plant}`,
          };
        }
      }
      if (this.#differs) return; // then the checksums differ, too
      for (const check = PLANTS_BY_USER.check(db); !check.next().done; );
    } finally {
      db.exec('ROLLBACK');
    }
  }

  /** Compares what is expected since the last comparison, in one snapshot of the view. */
  async #differences(): Promise<Problem[]> {
    const { db } = this.#view;
    db.exec('BEGIN');
    try {
      if (this.#checkReset()) return [];
      const problems: Problem[] = [];
      for (const user of [...this.#expected.keys()].sort())
        problems.push(...(await this.#compareUser(user, this.#expected.get(user) as PlantRow[])));
      for (const stream of this.#changed) problems.push(...(await this.#compareChanged(stream)));
      this.#differs ||= problems.length > 0;
      return problems;
    } catch (error) {
      this.#handleDamage(error);
      return [];
    } finally {
      db.exec('ROLLBACK');
      this.#expected.clear();
      this.#changed.clear();
      this.#expectedRows = 0;
      this.#expectedCharacters = 0;
    }
  }

  async #compareUser(user: string, expected: PlantRow[]): Promise<Problem[]> {
    const found = this.#rows(user, expected[0]?.position ?? START, expected.at(-1)?.position ?? START);
    const isSame = (row: PlantRow, i: number): boolean =>
      row.position === expected[i]?.position && isSameRow(row, expected[i]);
    if (found.length === expected.length && found.every(isSame)) {
      this.#matched += BigInt(found.length);
      return [];
    }
    const byPosition = new Map(found.map((row) => [row.position, row]));
    const problems: Problem[] = [];
    for (const row of expected) problems.push(...(await this.#compareRow(row, byPosition.get(row.position))));
    return problems;
  }

  async #compareRow(created: PlantRow, found: PlantRow | undefined): Promise<Problem[]> {
    const { position, user } = created;
    if (!found)
      return [{ position, problem: `the log has a plant of ${quote(user)} that the view does not have` }];
    this.#matched++;
    if (isSameRow(found, created)) return [];
    const row = await this.#fold(plantStream(user, created.id)); // later events may have changed it
    return isSameRow(found, row) ? [] : [{ position, problem: difference(row ?? created, found) }];
  }

  /**
   * A plant that the view has as it was created, although later events have changed it. Other differences are
   * found by `#compareRow`.
   */
  async #compareChanged(stream: string): Promise<Problem[]> {
    const row = await this.#fold(stream);
    if (!row) return [];
    const { user, position } = row;
    const created = await this.#fold(stream, position);
    const [found] = this.#rows(user, position, position);
    if (!found || !isSameRow(found, created) || isSameRow(found, row)) return [];
    return [{ position, problem: difference(row, found) }];
  }

  /** The rows of a user in the view, at positions from `first` to `last`, in this order. */
  #rows(user: string, first: Position, last: Position): PlantRow[] {
    const rows = this.#view.statements.rows.all(user, first, last) as unknown as [Position, string, string][];
    return rows.map(([position, id, plant]) => ({ user, position, id, plant }));
  }

  /**
   * A plant after the events of its stream up to a position; by default that of the view, which may have
   * moved.
   */
  async #fold(stream: string, upTo = readCheckpoint(this.#view.db).position): Promise<PlantRow | undefined> {
    const events = await this.#log.readStream(stream, MAX_STREAM_LENGTH).catch((error) => {
      if (error instanceof StreamDeleted) return []; // as the other events of the stream say
      throw error;
    });
    let row: PlantRow | undefined;
    for (const event of events) if (event.position <= upTo) row = this.#evolve(row, event);
    return row;
  }

  /** Invalid events are reported elsewhere; here they have no row. */
  #evolve(row: PlantRow | undefined, event: RecordedEvent): PlantRow | undefined {
    try {
      return evolve(row, event, this.#skip);
    } catch (error) {
      if (error instanceof InvalidEvent) return row;
      throw error;
    }
  }

  /** @throws any other error */
  #handleDamage(error: unknown): void {
    if (!isDamage(error)) throw error;
    this.#damage = (error as Error).message;
  }

  #checkReset(): boolean {
    const { logId, position } = readCheckpoint(this.#view.db);
    this.#wasReset ||= logId !== this.checkpoint.logId || position < this.checkpoint.position;
    return this.#wasReset;
  }
}

const quote = (user: string): string => JSON.stringify(user);

const isSameRow = (row: PlantRow, other: PlantRow | undefined): boolean =>
  row.id === other?.id && row.plant === other.plant;

function difference(row: PlantRow, found: PlantRow): string {
  const hasOtherId = row.plant === found.plant;
  const [here, there] = hasOtherId ? [`ID ${row.id}`, `ID ${found.id}`] : [row.plant, found.plant];
  return `by the log it is ${here}, in the view ${there}`;
}

function open(file: string) {
  return openViewReader(file, PLANTS_BY_USER, (db: DatabaseSync) => {
    db.exec('PRAGMA cache_size = -32768'); // KiB: rows are looked up in log order, and stored in another
    const rows = 'SELECT user, position, id, plant FROM plants WHERE';
    const ofUser = db.prepare(
      'SELECT position, id, plant FROM plants WHERE user = ? AND position BETWEEN ? AND ? ORDER BY position',
    );
    ofUser.setReturnArrays(true); // half the cost of objects
    return {
      rows: ofUser,
      count: db.prepare('SELECT count(*) AS count FROM plants WHERE position <= ?'),
      upTo: db.prepare(`${rows} position <= ?`),
      after: db.prepare(`${rows} position > ?`),
    };
  });
}
