import { LRUCache } from 'lru-cache';
import { type Position, type RecordedEvent, START } from '../src/eventStore/eventStore.ts';
import { readPlantCreated } from '../src/plants/plant.ts';
import { type Checkpoint, isDamage, openTables, removeFile, type Tables } from './plantsByUserTables.ts';

/** Bytes of remembered answers. */
const MEMORY = 64 * 1024 * 1024;

export type Question = { after: Position; upTo: Position; limit: number };

/** `plants`: JSON objects joined by commas; `last`: the position of the last one; `more`: others follow up to `upTo`. */
export type Page = { plants: string; count: number; last: Position; more: boolean };

type Row = { position: Position; plant: string };

/** The row that an event makes; undefined where it makes none. @throws MalformedPlantCreated */
export function rowOf(
  event: RecordedEvent,
  skip: ReadonlySet<string>,
): { user: string; plant: string } | undefined {
  const created = skip.has(event.id) ? undefined : readPlantCreated(event);
  return created && { user: created.user, plant: JSON.stringify({ name: created.name, tag: created.tag }) };
}

/** The file of the view is damaged. It has been thrown away; the view has to follow the log from its start. */
export class ViewDamaged extends Error {
  override readonly name = 'ViewDamaged';
}

/**
 * The view: each user's plants in log order. New rows wait in memory, where questions see them, until `save` writes
 * them and the checkpoint in one transaction: a file ordered by user costs a page per user touched, so many events
 * share it. What a crash loses is in the log.
 */
export class PlantsByUser {
  /** The last event seen, here or in the file. */
  position: Position = START;
  /** Why the file that was found has been replaced by an empty one; undefined where it has not. */
  replaced: string | undefined;
  /** Called when the file turns out to be damaged and has been replaced by an empty one. */
  onDamage = () => {};
  readonly #file: string;
  #tables: Tables;
  #saved: Checkpoint;
  #recent = new Map<string, Row[]>();
  #unsaved = 0;
  #lastEventId = '';
  #answers = new LRUCache<string, { to: string; page: Page }>({
    maxSize: MEMORY,
    sizeCalculation: ({ page }, user) => page.plants.length + user.length + 200,
  });

  /** Opens the view's file; one that is missing, damaged or of another version is made anew. */
  constructor(file: string) {
    this.#file = file;
    try {
      this.#tables = openTables(file);
    } catch (error) {
      if (!isDamage(error)) throw new Error(`the view ${file} cannot be used: ${(error as Error).message}`);
      this.replaced = (error as Error).message;
      removeFile(file);
      this.#tables = openTables(file);
    }
    this.#saved = this.#tables.checkpoint.get() as Checkpoint;
    this.position = this.#saved.position;
    this.#lastEventId = this.#saved.eventId;
  }

  /** What the file holds. */
  get checkpoint(): Checkpoint {
    return this.#saved;
  }

  /** Of the log that this is the view of. */
  get mark(): string {
    return this.#saved.mark;
  }

  /** What has been seen, whether the file holds it already or not. */
  get seen(): Checkpoint {
    return { mark: this.mark, position: this.position, eventId: this.#lastEventId };
  }

  /** How many events have been seen since the last `save`. */
  get unsaved(): number {
    return this.#unsaved;
  }

  /**
   * Takes events in log order, except those in `skip` (ids).
   * @throws MalformedPlantCreated with everything before that event applied
   */
  apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): void {
    for (const event of events) {
      const made = rowOf(event, skip);
      if (made) {
        const { user, plant } = made;
        const row = { position: event.position, plant };
        const rows = this.#recent.get(user);
        if (rows) rows.push(row);
        else this.#recent.set(user, [row]);
        this.#answers.delete(user);
      }
      this.position = event.position;
      this.#lastEventId = event.id;
      this.#unsaved++;
    }
  }

  /** Writes what has been applied, and the checkpoint with it. */
  save(): void {
    if (this.#unsaved === 0) return;
    const next = this.seen;
    this.#transaction(({ insert, move }) => {
      for (const user of [...this.#recent.keys()].sort()) {
        for (const { position, plant } of this.#recent.get(user) ?? []) insert.run(user, position, plant);
      }
      move.run(next.mark, next.position, next.eventId);
    });
    this.#saved = next;
    this.#recent.clear();
    this.#unsaved = 0;
  }

  /** Forgets everything; from now on the view belongs to the log with this mark. */
  reset(mark: string): void {
    this.#transaction(({ empty, move }) => {
      empty();
      move.run(mark, START, '');
    });
    this.#forget(mark);
  }

  /**
   * A page of a user's plants, oldest first: at most `limit`, after one position and up to another.
   * @throws ViewDamaged
   */
  plantsOf(user: string, question: Question): Page {
    if (question.upTo > this.position) throw new ViewDamaged('the view has been reset since');
    // Nothing of this user came since an answer was remembered, or it would have been dropped.
    const isCurrent = question.upTo === this.position;
    const to = `${question.after} ${question.limit}`;
    const remembered = isCurrent ? this.#answers.get(user) : undefined;
    if (remembered?.to === to) return remembered.page;
    const page = this.#page(user, question);
    if (isCurrent) this.#answers.set(user, { to, page });
    return page;
  }

  /** Saves what is not saved yet, and lets go of the file. */
  close(): void {
    this.save();
    if (this.#tables.db.isOpen) this.#tables.db.close();
  }

  #page(user: string, { after, upTo, limit }: Question): Page {
    const saved = this.#ask(({ page }) => page.get(user, after, upTo, limit)) as SavedPage;
    let plants = saved.plants ?? '';
    let last = saved.last ?? after;
    let count = Number(saved.count);
    if (count === limit && this.#ask(({ next }) => next.get(user, last, upTo, 1)))
      return { plants, count, last, more: true };
    for (const row of this.#recentOf(user, last, upTo)) {
      if (count === limit) return { plants, count, last, more: true };
      plants = count === 0 ? row.plant : `${plants},${row.plant}`;
      last = row.position;
      count++;
    }
    return { plants, count, last, more: false };
  }

  #recentOf(user: string, after: Position, upTo: Position): Row[] {
    return (this.#recent.get(user) ?? []).filter(({ position }) => position > after && position <= upTo);
  }

  #transaction(write: (tables: Tables) => void): void {
    this.#ask((tables) => {
      tables.db.exec('BEGIN IMMEDIATE');
      try {
        write(tables);
        tables.db.exec('COMMIT');
      } catch (error) {
        if (tables.db.isTransaction) tables.db.exec('ROLLBACK');
        throw error;
      }
    });
  }

  #ask<T>(question: (tables: Tables) => T): T {
    if (!this.#tables.db.isOpen) this.#tables = openTables(this.#file);
    try {
      return question(this.#tables);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.replaced = (error as Error).message;
      this.#tables.db.close();
      removeFile(this.#file);
      this.#forget('');
      this.onDamage();
      throw new ViewDamaged(
        `the view ${this.#file} was damaged and is built anew: ${(error as Error).message}`,
      );
    }
  }

  #forget(mark: string): void {
    this.#saved = { mark, position: START, eventId: '' };
    this.position = START;
    this.#lastEventId = '';
    this.#recent.clear();
    this.#unsaved = 0;
    this.#answers.clear();
  }
}

type SavedPage = { plants: string | null; count: bigint; last: Position | null };
