import type { Position, RecordedEvent } from '@event-sourced/event-log';
import type { Rows, Table } from '@event-sourced/event-log/views';
import { TableView, ViewBehind } from '@event-sourced/event-log/views';
import { LRUCache } from 'lru-cache';
import { parsePlantEvent } from '../src/plants/events.ts';

/** A plant: the position of its creation, and its JSON. */
export type PlantRow = readonly [user: string, position: Position, plant: string];

export const PLANTS_BY_USER = {
  name: 'plantsByUser',
  applicationId: 0x50566965, // 'PVie' in ASCII
  version: 5, // increment it when the same log gives different rows
  columns: { user: 'TEXT', position: 'INTEGER', plant: 'TEXT' },
  keyColumns: 2,
  cacheKiB: 16_384, // rows are clustered by user, so new ones are scattered
} as const satisfies Table;

/** Adds a row for each created plant. @throws InvalidEvent */
function foldPlants(event: RecordedEvent, plants: Rows<PlantRow>): void {
  const parsed = parsePlantEvent(event);
  switch (parsed?.type) {
    case 'PlantCreated': {
      const { user, name, tag } = parsed.data;
      plants.put([user, event.position, JSON.stringify({ name, tag })]);
    }
  }
}

/** At most `limit` plants, fewer if they are large, whose positions are above `after` and not above `upTo`. */
export type PageQuery = { after: Position; upTo: Position; limit: number };
/**
 * `plants`: JSON objects, separated by commas. `last`: the position of the last plant, or `after` if there is none.
 * `hasMore`: more plants follow up to `upTo`.
 */
export type PlantPage = { plants: string; count: number; last: Position; hasMore: boolean };

/** A page ends when it has this size, even with few plants. */
export const PAGE_BYTES = 64 * 1024;
const CACHE_BYTES = 64 * 1024 * 1024;
const KEYS_PER_TURN = 10_000;

/** The view: each user's plants in log order. */
export class PlantsByUser extends TableView<PlantRow> {
  static readonly definition = { table: PLANTS_BY_USER, fold: foldPlants, title: 'plant list' };
  /** The last page that was read for each user, until a row of that user changes. */
  readonly #cache = new LRUCache<string, { query: string; page: PlantPage }>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ page }, user) => page.plants.length + user.length + 200,
  });

  /** A page of a user's plants, oldest first. @throws ViewBehind */
  readPage(user: string, query: PageQuery): PlantPage {
    const { position } = this.applied;
    this.#assertReached(query);
    if (query.upTo < position) return this.#queryPage(user, query);
    const key = `${query.after} ${query.limit}`;
    const cached = this.#cache.get(user);
    if (cached?.query === key) return cached.page;
    const page = this.#queryPage(user, query);
    this.#cache.set(user, { query: key, page });
    return page;
  }

  /**
   * Where the next page starts: the position of the last of the first `limit` plants, if more follow. Counts long lists
   * in several turns of the event loop. @throws ViewBehind
   */
  async nextPage(
    user: string,
    { after, upTo, limit }: PageQuery,
    turn: () => Promise<void>,
  ): Promise<Position | undefined> {
    let last = after;
    let left = limit;
    for (;;) {
      const end = Math.max(0, left - KEYS_PER_TURN);
      let hasMore = false;
      this.#assertReached({ upTo });
      this.scan({ after: [user, last], columns: 'key' }, ([, position]) => {
        hasMore = left === end && position <= upTo;
        if (left === end || position > upTo) return false;
        last = position;
        left--;
        return true;
      });
      if (!hasMore) return undefined;
      if (left === 0) return last;
      await turn();
    }
  }

  protected override onChange(user?: string): void {
    if (user === undefined) this.#cache.clear();
    else this.#cache.delete(user);
  }

  /** A view that lost events, or was reset, must not truncate a list that is being sent. */
  #assertReached({ upTo }: Pick<PageQuery, 'upTo'>): void {
    if (upTo > this.applied.position) throw new ViewBehind('The plant list is not up to date yet; retry.');
  }

  #queryPage(user: string, { after, upTo, limit }: PageQuery): PlantPage {
    const plants: string[] = [];
    let last = after;
    let bytes = 0;
    let hasMore = false;
    this.scan({ after: [user, after], limit: limit + 1 }, ([, position, plant]) => {
      if (position > upTo) return false;
      hasMore = plants.length === limit || bytes >= PAGE_BYTES;
      if (hasMore) return false;
      plants.push(plant);
      last = position;
      bytes += Buffer.byteLength(plant) + 1;
      return true;
    });
    return { plants: plants.join(), count: plants.length, last, hasMore };
  }
}
