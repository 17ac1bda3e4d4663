import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { onTestFinished } from 'vitest';
import { type EventLog, InvalidEvent, type RecordedEvent } from '../../src/eventStore.ts';
import type { Rows, Table } from '../../src/views/table.ts';
import { TableView } from '../../src/views/tableView.ts';

// An example of a view: the items of to-do lists, which are added, renamed, and removed.

export const LOG_ID = 'log';
export const NONE: ReadonlySet<string> = new Set();

type Item = readonly [list: string, position: bigint, id: string, title: string];
type ItemEvent = {
  type: 'ItemAdded' | 'ItemRenamed' | 'ItemRemoved';
  list: string;
  id: string;
  title: string;
};

export const TO_DO_LISTS: Table = {
  name: 'toDoLists',
  applicationId: 7,
  version: 1,
  columns: { list: 'TEXT', position: 'INTEGER', id: 'TEXT', title: 'TEXT' },
  keyColumns: 2,
  lookup: ['list', 'id'],
  cacheKiB: 1_024,
};

function foldItems(event: RecordedEvent, items: Rows<Item>): void {
  const { type, position, data } = event;
  const { list, id, title } = data as ItemEvent;
  if (type === 'ItemAdded' && title === undefined) throw new InvalidEvent(event);
  const item = items.find(list, id);
  if (type === 'ItemAdded' && !item) items.put([list, position, id, title]);
  if (type === 'ItemRenamed' && item) items.put([list, item[1], id, title]);
  if (type === 'ItemRemoved' && item) items.delete(list, item[1]);
}

export class ToDoLists extends TableView<Item> {
  static readonly definition = { table: TO_DO_LISTS, fold: foldItems, title: 'to-do list' };
  /** The connection of the view; tests make its commits fail. */
  db!: DatabaseSync;

  protected override load(db: DatabaseSync): void {
    this.db = db;
    super.load(db);
  }

  titlesOf(list: string, { after = 0n, limit = 1_000 } = {}): string[] {
    const titles: string[] = [];
    if (limit > 0)
      this.scan({ after: [list, after], limit }, (item) => {
        titles.push(item[3]);
        return titles.length < limit;
      });
    return titles;
  }

  positionsOf(list: string): bigint[] {
    const positions: bigint[] = [];
    this.scan({ after: [list, 0n], columns: 'key' }, ([, position]) => positions.push(position) > 0);
    return positions;
  }

  titleAt(list: string, position: bigint): string | undefined {
    return this.get(list, position)?.[3];
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
  const view = ToDoLists.open(file);
  onTestFinished(() => view.close());
  if (view.applied.logId === '') view.reset(LOG_ID);
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
  db.exec(`CREATE TEMP TRIGGER full BEFORE UPDATE ON main.checkpoint
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
