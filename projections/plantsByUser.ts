import type { Position, RecordedEvent } from '@event-sourced/event-log';
import type { Rows, Table } from '@event-sourced/event-log/views';
import { TableView, ViewBehind } from '@event-sourced/event-log/views';
import { LRUCache } from 'lru-cache';
import { parsePlantEvent } from '../src/plants/events.ts';

/** A plant: `position` is that of its creation, `plant` its JSON. */
export type PlantRow = readonly [user: string, position: Position, plant: string];

export const PLANTS_BY_USER = {
  name: 'plantsByUser',
  applicationId: 0x50566965, // 'PVie' in ASCII
  version: 5, // another one if the same log gives other rows
  columns: { user: 'TEXT', position: 'INTEGER', plant: 'TEXT' },
  keyColumns: 2,
  cacheKiB: 16_384, // the rows of one user are together, not those of one time
} as const satisfies Table;

/** The rows after one more event: a new plant is a row of its user. @throws InvalidEvent */
export function foldPlants(event: RecordedEvent, plants: Rows<PlantRow>): void {
  const parsed = parsePlantEvent(event);
  switch (parsed?.type) {
    case 'PlantCreated': {
      const { user, name, tag } = parsed.data;
      plants.put([user, event.position, JSON.stringify({ name, tag })]);
    }
  }
}

/** The plants after a position, up to another one, at most `limit` of them; fewer if they are large. */
export type PageQuery = { after: Position; upTo: Position; limit: number };
/**
 * `plants`: JSON objects, separated by commas. `last`: the position of the last one; that of the query if there is
 * none. `hasMore`: others follow up to `upTo`.
 */
export type PlantPage = { plants: string; count: number; last: Position; hasMore: boolean };

/** A page ends after these bytes, however few plants it has. */
export const PAGE_BYTES = 64 * 1024;
const CACHE_BYTES = 64 * 1024 * 1024;
const KEYS_PER_TURN = 10_000;

/** The view: each user's plants in log order. */
export class PlantsByUser extends TableView<PlantRow> {
  static readonly definition = { table: PLANTS_BY_USER, fold: foldPlants, title: 'plant list' };
  /** The last page of each user, with its query, until a row of the user changes. */
  readonly #cache = new LRUCache<string, { query: string; page: PlantPage }>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ page }, user) => page.plants.length + user.length + 200,
  });

  /** A page of a user's plants, oldest first. @throws ViewBehind */
  plantsOf(user: string, query: PageQuery): PlantPage {
    const { position } = this.applied;
    this.#assertReached(query);
    if (query.upTo < position) return this.#readPage(user, query);
    const key = `${query.after} ${query.limit}`;
    const cached = this.#cache.get(user);
    if (cached?.query === key) return cached.page;
    const page = this.#readPage(user, query);
    this.#cache.set(user, { query: key, page });
    return page;
  }

  /**
   * The position of the last of the first `limit` plants, if others follow it: where the next page starts. Long lists
   * are counted in turns of the event loop. @throws ViewBehind
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
      this.scan({ after: [user, last], of: 'keys' }, ([, position]) => {
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

  /** A list that is being sent must not end early where the view has lost events, or was reset. */
  #assertReached({ upTo }: Pick<PageQuery, 'upTo'>): void {
    if (upTo > this.applied.position) throw new ViewBehind('The plant list is not up to date yet; retry.');
  }

  #readPage(user: string, { after, upTo, limit }: PageQuery): PlantPage {
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
