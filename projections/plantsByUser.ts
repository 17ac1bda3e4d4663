import type { DatabaseSync } from 'node:sqlite';
import type { Position, RecordedEvent } from '@event-sourced/event-log';
import type { WalThread } from '@event-sourced/event-log/disk';
import { View, ViewBehind, type ViewDefinition } from '@event-sourced/event-log/views';
import { prepareArrays } from '@event-sourced/node/files';
import { LRUCache } from 'lru-cache';
import { parsePlantEvent } from '../src/plants/events.ts';

/** Longer plants are read one by one, so that a query of many plants takes little memory. */
const SHORT_PLANT_BYTES = 1_024;

/** A row for each plant: the position of its creation, its ID, and its JSON without the ID. */
const PLANTS_BY_USER: ViewDefinition = {
  name: 'plantsByUser',
  title: 'plant list',
  applicationId: 0x50566965, // 'PVie' in ASCII
  version: 10, // increment it when the same log gives different rows
  cacheKiB: 16_384, // rows are clustered by user, so new ones are scattered
  table: 'plants',
  onErasure: 'deleteRows',
  schema: `
    CREATE TABLE plants (
      user     TEXT    NOT NULL,
      position INTEGER NOT NULL,
      id       INTEGER NOT NULL,
      plant    TEXT    NOT NULL,
      PRIMARY KEY (user, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX plants_by_position ON plants (position)`,
};

/** At most `limit` plants, fewer if they are large, whose positions are above `after` and not above `upTo`. */
export type PageQuery = { after: Position; upTo: Position; limit: number; withIds?: boolean };
/**
 * `plants`: JSON objects, separated by commas. `last`: the position of the last plant, or `after` if there is none.
 * `hasMore`: more plants follow up to `upTo`.
 */
export type PlantPage = { plants: string; count: number; last: Position; hasMore: boolean };

/** A page ends when it has this size, even with few plants. */
export const PAGE_BYTES = 64 * 1024;
const CACHE_BYTES = 64 * 1024 * 1024;
const COUNTED_PER_TURN = 10_000;

/** The JSON of a plant. */
const PLANT = 'plant';
/** The same with its ID, as an integer with all digits: the JSON begins with `{"name"`. */
const PLANT_WITH_ID = `'{"id":' || id || ',' || substr(plant, 2)`;

type CachedPage = { query: string; page: PlantPage };

const IN_RANGE = 'FROM plants WHERE user = ? AND position > ? AND position <= ? ORDER BY position';

/** The statements that read plants, as the SQL expression `json`. */
const prepareReads = (db: DatabaseSync, json: string) => ({
  page: prepareArrays(
    db,
    `SELECT position, CASE WHEN octet_length(plant) <= ${SHORT_PLANT_BYTES} THEN ${json} END ${IN_RANGE} LIMIT ?`,
  ),
  plant: prepareArrays(db, `SELECT ${json} FROM plants WHERE user = ? AND position = ?`),
});

function prepare(db: DatabaseSync) {
  return {
    insert: db.prepare('INSERT OR REPLACE INTO plants VALUES (?, ?, ?, ?)'),
    reads: prepareReads(db, PLANT),
    readsWithIds: prepareReads(db, PLANT_WITH_ID),
    next: prepareArrays(db, `SELECT position ${IN_RANGE} LIMIT 2 OFFSET ?`),
    /** The last page that was read for each user, until a row of that user changes. */
    pages: new LRUCache<string, CachedPage>({
      maxSize: CACHE_BYTES,
      sizeCalculation: ({ page }, user) => page.plants.length + user.length + 200,
    }),
  };
}

/** The view: each user's plants in log order. */
export class PlantsByUser extends View<ReturnType<typeof prepare>> {
  constructor(file: string, walThread?: WalThread) {
    super(file, PLANTS_BY_USER, walThread);
  }

  protected override load(db: DatabaseSync) {
    return prepare(db);
  }

  /** Adds a row for each created plant. @throws InvalidEvent */
  protected override fold(event: RecordedEvent, { insert, pages }: ReturnType<typeof prepare>): void {
    const parsed = parsePlantEvent(event);
    if (!parsed) return;
    const { type: kind, data } = parsed;
    switch (kind) {
      case 'PlantCreated': {
        const { user, id, name, tag } = data;
        insert.run(user, event.position, BigInt(id), JSON.stringify({ name, tag }));
        pages.delete(user);
        return;
      }
      default:
        kind satisfies never; // each known type needs a case
    }
  }

  protected override forget({ pages }: ReturnType<typeof prepare>): void {
    pages.clear();
  }

  /** A page of a user's plants, oldest first. @throws ViewBehind */
  readPage(user: string, query: PageQuery): PlantPage {
    this.#assertReached(query);
    if (query.upTo < this.progress.position) return this.#queryPage(user, query);
    const key = `${query.after} ${query.limit} ${query.withIds}`;
    const cached = this.use(({ pages }) => pages.get(user));
    if (cached?.query === key) return cached.page;
    const page = this.#queryPage(user, query);
    this.use(({ pages }) => pages.set(user, { query: key, page }));
    return page;
  }

  /**
   * Where the next page starts: the position of the last of the first `limit` plants, if more follow. Counts long lists
   * in several turns of the event loop. @throws ViewBehind
   */
  async nextPage(
    user: string,
    { after, upTo, limit }: PageQuery,
    nextTurn: () => Promise<void>,
  ): Promise<Position | undefined> {
    let last = after;
    for (let left = limit; left > 0; ) {
      this.#assertReached({ upTo });
      const count = Math.min(left, COUNTED_PER_TURN);
      const rows = this.use(({ next }) => next.all(user, last, upTo, count - 1)) as unknown as [Position][];
      const [counted, following] = rows;
      if (!counted || !following) return undefined;
      [last] = counted;
      left -= count;
      if (left > 0) await nextTurn();
    }
    return last;
  }

  /** A view that lost events, or was reset, must not truncate a list that is being sent. */
  #assertReached({ upTo }: Pick<PageQuery, 'upTo'>): void {
    if (upTo > this.progress.position) throw new ViewBehind('The plant list is not up to date yet; retry.');
  }

  #queryPage(user: string, { after, upTo, limit, withIds }: PageQuery): PlantPage {
    return this.use(({ reads, readsWithIds }) => {
      const statements = withIds ? readsWithIds : reads;
      const rows = statements.page.all(user, after, upTo, limit + 1) as unknown as [
        Position,
        string | null,
      ][];
      const plants: string[] = [];
      let last = after;
      let bytes = 0;
      for (const [position, short] of rows) {
        if (plants.length === limit || bytes >= PAGE_BYTES) break;
        const plant = short ?? (statements.plant.get(user, position) as unknown as [string])[0];
        plants.push(plant);
        last = position;
        bytes += Buffer.byteLength(plant) + 1;
      }
      return { plants: plants.join(), count: plants.length, last, hasMore: plants.length < rows.length };
    });
  }
}
