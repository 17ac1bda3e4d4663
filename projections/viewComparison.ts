import { existsSync } from 'node:fs';
import { type EventLog, type RecordedEvent, START } from '../src/eventStore/eventStore.ts';
import { MalformedPlantCreated } from '../src/plants/plant.ts';
import { rowOf } from './plantsByUser.ts';
import { type Checkpoint, openTablesForReading } from './plantsByUserTables.ts';

/** Something that is not as it must be, at a position of the log where it has one. */
export type Fault = { position?: bigint; fault: string };

type Row = { user: string; position: bigint; plant: string };

/** Rows lie in the order of users: so many are looked up together, in that order, and share pages. */
const TOGETHER = 50_000;
/** Or fewer that are so long together, in characters: they are held in memory. */
const TOGETHER_LENGTH = 8 * 1024 * 1024;
const NONE: Fault[] = [];

/**
 * Compares the view in a file with the fold of its log, event by event, as far as the view had come at the beginning.
 * The file may be that of a running server: no lock is held, and rows that are there already do not change.
 */
export class ViewComparison {
  readonly checkpoint: Checkpoint;
  readonly #tables: ReturnType<typeof openTablesForReading>;
  readonly #skip: ReadonlySet<string>;
  #isCheckpointMet: boolean;
  readonly #expected = new Map<string, Row[]>();
  #waiting = 0;
  #waitingLength = 0;
  #isAnew = false;
  #rows = 0n;

  /** The view in a file, where there is one. @throws Error that says why it cannot be read */
  static open(file: string, skip: ReadonlySet<string>): ViewComparison | undefined {
    return existsSync(file) ? new ViewComparison(file, skip) : undefined;
  }

  private constructor(file: string, skip: ReadonlySet<string>) {
    this.#tables = openTablesForReading(file);
    this.#skip = skip;
    this.checkpoint = this.#now();
    this.#isCheckpointMet = this.checkpoint.position === START;
  }

  /** Whether the view has never been given to a log. */
  get isNew(): boolean {
    return this.checkpoint.mark === '' && this.checkpoint.position === START;
  }

  /** To be given each event in log order. Gives now and then how the view differs from those it was given. */
  compare(event: RecordedEvent): Fault[] {
    const { position } = event;
    if (position > this.checkpoint.position || this.#isAnew) return NONE;
    if (position === this.checkpoint.position) this.#isCheckpointMet = event.id === this.checkpoint.eventId;
    const made = fold(event, this.#skip);
    if (made) this.#expect({ ...made, position });
    const isEnough = this.#waiting >= TOGETHER || this.#waitingLength >= TOGETHER_LENGTH;
    return isEnough ? this.#differences() : NONE;
  }

  #expect(row: Row): void {
    const rows = this.#expected.get(row.user);
    if (rows) rows.push(row);
    else this.#expected.set(row.user, [row]);
    this.#waiting++;
    this.#waitingLength += row.plant.length;
  }

  /** Of what has been expected since the last time, in one state of the view. */
  #differences(): Fault[] {
    const { db } = this.#tables;
    db.exec('BEGIN');
    try {
      const now = this.#now();
      this.#isAnew ||= now.mark !== this.checkpoint.mark || now.position < this.checkpoint.position;
      return this.#isAnew ? NONE : this.#compared();
    } finally {
      db.exec('ROLLBACK');
      this.#expected.clear();
      this.#waiting = 0;
      this.#waitingLength = 0;
    }
  }

  #compared(): Fault[] {
    const faults: Fault[] = [];
    for (const user of [...this.#expected.keys()].sort()) {
      const expected = this.#expected.get(user) as [Row, ...Row[]];
      const range = [user, expected[0].position, expected.at(-1)?.position ?? START] as const;
      // Nearly always all is well, and one text says so: no plant has a line of its own.
      const { count, lines } = this.#tables.linesBetween.get(...range) as {
        count: bigint;
        lines: string | null;
      };
      const isSame = lines === expected.map(({ position, plant }) => `${position}${plant}`).join('\n');
      if (isSame && count === BigInt(expected.length)) {
        this.#rows += count;
        continue;
      }
      const found = this.#tables.between.iterate(...range);
      let row = found.next().value as Row | undefined;
      for (const { position, plant } of expected) {
        while (row && row.position < position) row = found.next().value as Row | undefined;
        const isThere = row?.position === position;
        if (isThere) this.#rows++;
        if (!isThere)
          faults.push({
            position,
            fault: `the log has a plant of ${JSON.stringify(user)} that the view has not`,
          });
        else if (row?.plant !== plant)
          faults.push({ position, fault: `the log says ${plant}, the view says ${row?.plant}` });
      }
      found.return?.();
    }
    return faults;
  }

  /** To be asked after the last event: how else the view differs, and what it has that the log does not say. */
  async *rest(log: EventLog): AsyncGenerator<Fault> {
    yield* this.#differences();
    const { mark, position } = this.checkpoint;
    if (!this.#isCheckpointMet)
      yield { position, fault: 'the checkpoint of the view names an event that is not there' };
    const { db, count, upTo, beyond } = this.#tables;
    db.exec('BEGIN'); // one state of the view for what follows: a running server goes on
    try {
      const now = this.#now();
      if (this.#isAnew || now.mark !== mark || now.position < position) {
        yield { fault: 'the view has been built anew meanwhile: verify again' };
        return;
      }
      for (const row of beyond.iterate(now.position)) {
        const { position, user, plant } = row as Row;
        yield {
          position,
          fault: `the view has a plant of ${JSON.stringify(user)} beyond its checkpoint: ${plant}`,
        };
      }
      if ((count.get(position) as { rows: bigint }).rows === this.#rows) return;
      for (const row of upTo.iterate(position)) {
        const { position, user, plant } = row as Row;
        const event = await log.eventAt(position);
        if (event && fold(event, this.#skip)?.user === user) continue;
        yield {
          position,
          fault: `the view has a plant of ${JSON.stringify(user)} that the log has not: ${plant}`,
        };
      }
    } finally {
      db.exec('ROLLBACK');
    }
  }

  close(): void {
    this.#tables.db.close();
  }

  #now(): Checkpoint {
    return this.#tables.checkpoint.get() as Checkpoint;
  }
}

/** What the log says of a malformed event, others say; here it makes no row. */
function fold(event: RecordedEvent, skip: ReadonlySet<string>): ReturnType<typeof rowOf> {
  try {
    return rowOf(event, skip);
  } catch (error) {
    if (error instanceof MalformedPlantCreated) return undefined;
    throw error;
  }
}
