import { existsSync } from 'node:fs';
import { type EventLog, type RecordedEvent, START } from '../src/eventStore/eventStore.ts';
import { MalformedPlantCreated } from '../src/plants/plant.ts';
import { rowOf } from './plantsByUser.ts';
import { type Checkpoint, openTablesForReading } from './plantsByUserTables.ts';

/** Something that is not as it must be, at a position of the log where it has one. */
export type Fault = { position?: bigint; fault: string };

type Row = { user: string; position: bigint; plant: string };

/**
 * Compares the view in a file with the fold of its log, event by event, as far as the view had come at the beginning.
 * The file may be that of a running server: no lock is held, and rows that are there already do not change.
 */
export class ViewComparison {
  readonly checkpoint: Checkpoint;
  readonly #tables: ReturnType<typeof openTablesForReading>;
  readonly #skip: ReadonlySet<string>;
  #isCheckpointMet: boolean;
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

  /** To be given each event in log order: how the view differs there, if it does. */
  compare(event: RecordedEvent): string | undefined {
    if (event.position > this.checkpoint.position) return undefined;
    let fault: string | undefined;
    const made = fold(event, this.#skip);
    if (made) {
      const row = this.#tables.row.get(made.user, event.position) as Row | undefined;
      if (row) this.#rows++;
      if (!row) fault = `the view of ${JSON.stringify(made.user)} lacks its plant`;
      else if (row.plant !== made.plant) fault = `the view has ${row.plant} for it`;
    }
    if (event.position !== this.checkpoint.position) return fault;
    this.#isCheckpointMet = event.id === this.checkpoint.eventId;
    return fault;
  }

  /** To be asked after the last event: what else is in the view that the log does not say. */
  async *rest(log: EventLog): AsyncGenerator<Fault> {
    const { mark, position } = this.checkpoint;
    if (!this.#isCheckpointMet)
      yield { position, fault: 'the checkpoint of the view names an event that is not there' };
    const { db, count, upTo, beyond } = this.#tables;
    db.exec('BEGIN'); // one state of the view for what follows: a running server goes on
    try {
      const now = this.#now();
      if (now.mark !== mark || now.position < position) {
        yield { fault: 'the view has been built anew meanwhile: verify again' };
        return;
      }
      for (const row of beyond.iterate(now.position)) {
        const { position, user, plant } = row as Row;
        yield {
          position,
          fault: `the view of ${JSON.stringify(user)} has a plant beyond its checkpoint: ${plant}`,
        };
      }
      if ((count.get(position) as { rows: bigint }).rows === this.#rows) return;
      for (const row of upTo.iterate(position)) {
        const { position, user, plant } = row as Row;
        const event = await log.eventAt(position);
        if (event && fold(event, this.#skip)?.user === user) continue;
        yield {
          position,
          fault: `the view of ${JSON.stringify(user)} has a plant that no event makes: ${plant}`,
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
