import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { onTestFinished } from 'vitest';
import type { WalThread } from '../../src/disk/walThread.ts';
import { type EventLog, InvalidEvent, type RecordedEvent } from '../../src/eventStore.ts';
import { View } from '../../src/views/view.ts';
import type { ViewDefinition } from '../../src/views/viewFile.ts';

// An example of a view: the items of to-do lists, which are added, renamed, and removed.

export const LOG_ID = 'log';
export const NONE: ReadonlySet<string> = new Set();

type ItemEvent = {
  type: 'ItemAdded' | 'ItemRenamed' | 'ItemRemoved';
  list: string;
  id: string;
  title: string;
};

const TO_DO_LISTS = {
  name: 'toDoLists',
  title: 'to-do list',
  applicationId: 7,
  version: 1,
  cacheKiB: 1_024,
  table: 'items',
  schema: `
    CREATE TABLE items (
      list     TEXT    NOT NULL,
      position INTEGER NOT NULL,
      id       TEXT    NOT NULL,
      title    TEXT    NOT NULL,
      PRIMARY KEY (list, position)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX items_by_id ON items (list, id)`,
};

function prepare(db: DatabaseSync) {
  return {
    db,
    add: db.prepare('INSERT OR IGNORE INTO items (list, position, id, title) VALUES (?, ?, ?, ?)'),
    rename: db.prepare('UPDATE items SET title = ? WHERE list = ? AND id = ?'),
    remove: db.prepare('DELETE FROM items WHERE list = ? AND id = ?'),
    titles: db.prepare('SELECT title FROM items WHERE list = ? ORDER BY position'),
  };
}
type Statements = ReturnType<typeof prepare>;

export class ToDoLists extends View<Statements> {
  constructor(file: string, walThread?: WalThread, more: Partial<ViewDefinition> = {}) {
    super(file, { ...TO_DO_LISTS, ...more }, walThread);
  }

  protected override load(db: DatabaseSync): Statements {
    return prepare(db);
  }

  protected override fold(event: RecordedEvent, { add, rename, remove }: Statements): void {
    const { type, position, data } = event;
    const { list, id, title } = data as ItemEvent;
    if (type === 'ItemAdded' && title === undefined) throw new InvalidEvent(event);
    if (type === 'ItemAdded') add.run(list, position, id, title);
    if (type === 'ItemRenamed') rename.run(title, list, id);
    if (type === 'ItemRemoved') remove.run(list, id);
  }

  /** The connection of the view; tests make its commits fail. */
  get db(): DatabaseSync {
    return this.use(({ db }) => db);
  }

  titlesOf(list: string): string[] {
    return this.use(({ titles }) => titles.all(list).map(({ title }) => title as string));
  }
}

export const item = (
  position: number,
  list: string,
  title: string,
  { type = 'ItemAdded', id = `${position}` } = {},
): RecordedEvent => ({
  position: BigInt(position),
  stream: `list-${list}`,
  revision: 0n,
  id: `event-${position}`,
  type,
  data: { list, id, title },
  metadata: {},
});

/** The view in a file, with these events applied, until the test ends. */
export function toDoLists(
  file = join(tempDir(), 'view.db'),
  events: readonly RecordedEvent[] = [],
): ToDoLists {
  const view = new ToDoLists(file);
  onTestFinished(() => view.close());
  if (view.progress.logId === '') view.bind(LOG_ID);
  if (events.length > 0) view.apply(events, NONE);
  return view;
}

/** The path of a closed view with these events. */
export function savedLists(events: readonly RecordedEvent[]): string {
  const file = join(tempDir(), 'view.db');
  toDoLists(file, events).close();
  return file;
}

/** Lets the next commit of a view fail, and SQLite roll it back, as on a full disk: what does that is rolled back, too. */
export function failNextCommit(db: DatabaseSync): void {
  if (!db.isTransaction) db.exec('BEGIN IMMEDIATE');
  db.exec(`CREATE TEMP TRIGGER full BEFORE UPDATE ON main.bookmark
    BEGIN SELECT RAISE(ROLLBACK, 'database or disk is full'); END`);
}

/** Executes SQL in a file, past its view. */
export function inFile(file: string, sql: string): void {
  using db = new DatabaseSync(file);
  db.exec(sql);
}

/** A log in memory, which may get more events. */
export const logOf = (events: readonly RecordedEvent[]): EventLog =>
  ({
    logId: async () => LOG_ID,
    lastPosition: async () => events.at(-1)?.position ?? 0n,
    readAll: async ({ after, limit }: { after: bigint; limit: number }) => {
      const following = events.filter(({ position }) => position > after);
      const page = following.slice(0, limit);
      return {
        events: page,
        position: page.at(-1)?.position ?? after,
        isEnd: page.length === following.length,
      };
    },
  }) as Partial<EventLog> as EventLog;
