import type { DatabaseSync } from 'node:sqlite';
import { LRUCache } from 'lru-cache';
import type { Position, RecordedEvent } from '../src/eventStore/eventStore.ts';
import { parsePlantEvent } from '../src/plants/events.ts';
import type { View, ViewCheckpoint } from './view.ts';
import type { ViewFormat } from './viewDatabase.ts';
import { ViewDamaged, ViewFile } from './viewFile.ts';

/** The plants after a position, up to another one, at most `limit` of them; fewer if they are large. */
export type PageQuery = { after: Position; upTo: Position; limit: number };

/**
 * `plants`: JSON objects, separated by commas. `last`: the position of the last one. `hasMore`: others follow
 * up to `upTo`.
 */
export type PlantPage = { plants: string; count: number; last: Position; hasMore: boolean };

/** A plant as the view has it: `position` is that of its creation, `plant` its JSON. */
export type PlantRow = { user: string; id: string; position: Position; plant: string };

/** The file. Plants are numbered per user, from 1, in log order. Only viewComparison.ts reads it, too. */
export const PLANTS_BY_USER: ViewFormat = {
  applicationId: 0x50566965, // 'PVie' in ASCII
  version: 2,
  cacheKiB: 16_384, // the rows of one user are together, not those of one time
  schema: `
    CREATE TABLE plants (
      user     TEXT    NOT NULL,
      position INTEGER NOT NULL,
      number   INTEGER NOT NULL,
      id       TEXT    NOT NULL,
      plant    TEXT    NOT NULL,
      PRIMARY KEY (user, position)
    ) STRICT, WITHOUT ROWID;`,
  insert: `
    INSERT INTO plants (user, position, number, id, plant) VALUES (?1, ?2, 1 + coalesce(
      (SELECT number FROM plants WHERE user = ?1 ORDER BY position DESC LIMIT 1), 0), ?3, ?4)`,
  empty: 'DELETE FROM plants',
};

/** A plant's row after one more event of its stream. @throws InvalidEvent */
export function evolve(
  row: PlantRow | undefined,
  event: RecordedEvent,
  skip: ReadonlySet<string>,
): PlantRow | undefined {
  const parsed = skip.has(event.id) ? undefined : parsePlantEvent(event);
  switch (parsed?.type) {
    case 'PlantCreated': {
      const { user, id, name, tag } = parsed.data;
      return { user, id, position: event.position, plant: JSON.stringify({ name, tag }) };
    }
    default:
      return row;
  }
}

/** A page ends when its plants have so many bytes, however few plants that is. */
export const PAGE_BYTES = 64 * 1024;
/** Bytes of cached pages. */
const CACHE_BYTES = 64 * 1024 * 1024;

/**
 * The view: each user's plants in log order. New rows stay in memory, where queries see them, until they are
 * saved: the file is ordered by user, so a row costs a page, and many events share a save.
 */
export class PlantsByUser implements View {
  readonly name = 'plantsByUser';
  onDamage = () => {};
  readonly #file: ViewFile<Statements>;
  /** The last event applied. */
  #position: Position;
  #eventId: string;
  /** Up to here queries read the file, after it the memory: a save may be in the file and not known yet. */
  #savedPosition: Position;
  #unsaved = 0;
  #unsavedCharacters = 0;
  /** The rows since the last save, and before them those that are being saved. */
  #newRows: Rows = new Map();
  #rowsInSave: Rows = new Map();
  #lastSave = Promise.resolve();
  #closed: Promise<void> | undefined;
  /** The last page of each user, with its query. An event of the user removes it. */
  #cache = new LRUCache<string, { query: string; page: PlantPage }>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ page }, user) => page.plants.length + user.length + 200,
  });

  /** Opens the view in a file. @throws Error with a message for the operator */
  static async open(file: string): Promise<PlantsByUser> {
    return new PlantsByUser(await ViewFile.open(file, PLANTS_BY_USER, prepare));
  }

  private constructor(file: ViewFile<Statements>) {
    this.#file = file;
    ({ position: this.#position, eventId: this.#eventId } = file.checkpoint);
    this.#savedPosition = this.#position;
    file.onDamage = () => {
      this.#clear();
      this.onDamage();
    };
  }

  get applied(): ViewCheckpoint {
    const { logId } = this.#file.checkpoint;
    return { logId, position: this.#position, eventId: this.#eventId };
  }

  get unsaved(): number {
    return this.#unsaved;
  }

  get unsavedCharacters(): number {
    return this.#unsavedCharacters;
  }

  get replaced(): string | undefined {
    return this.#file.replaced;
  }

  apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): void {
    for (const event of events) {
      const row = evolve(undefined, event, skip);
      if (row) this.#add(row);
      this.#position = event.position;
      this.#eventId = event.id;
      this.#unsaved++;
    }
  }

  save(): Promise<void> {
    this.#lastSave = this.#lastSave.catch(() => {}).then(() => this.#save());
    return this.#lastSave;
  }

  async reset(logId: string): Promise<void> {
    await this.#lastSave.catch(() => {});
    const reset = this.#file.reset(logId);
    this.#clear();
    await reset;
  }

  close(): Promise<void> {
    this.#closed ??= this.save().finally(() => this.#file.close());
    return this.#closed;
  }

  /** A page of a user's plants, oldest first. @throws ViewDamaged */
  plantsOf(user: string, query: PageQuery): PlantPage {
    if (query.upTo > this.#position) throw new ViewDamaged('the view has been reset');
    const key = `${query.after} ${query.limit}`;
    const isCurrent = query.upTo === this.#position;
    const cached = isCurrent ? this.#cache.get(user) : undefined;
    if (cached?.query === key) return cached.page;
    const page = this.#readPage(user, query);
    if (isCurrent) this.#cache.set(user, { query: key, page });
    return page;
  }

  /**
   * The position of the last of the first `limit` plants, if others follow it: where the next page starts.
   * @throws ViewDamaged
   */
  nextPage(user: string, { after, upTo, limit }: PageQuery): Position | undefined {
    const number = this.#countUpTo(user, after) + limit;
    if (number >= this.#countUpTo(user, upTo)) return undefined;
    const saved = this.#countSaved(user, upTo);
    if (number > saved) return this.#rowsInMemory(user)[number - saved - 1]?.position;
    return this.#findSaved(user, number, { after, upTo });
  }

  async #save(): Promise<void> {
    if (this.#unsaved === 0) return;
    const [checkpoint, events, characters] = [this.applied, this.#unsaved, this.#unsavedCharacters];
    if (this.#rowsInSave.size === 0) this.#rowsInSave = this.#newRows;
    else for (const rows of this.#newRows.values()) for (const row of rows) addTo(this.#rowsInSave, row); // failed
    this.#newRows = new Map();
    await this.#file.save(checkpoint);
    this.#rowsInSave = new Map();
    this.#savedPosition = checkpoint.position;
    this.#unsaved -= events;
    this.#unsavedCharacters -= characters;
  }

  #add(row: PlantRow): void {
    addTo(this.#newRows, row);
    this.#file.add([row.user, row.position, row.id, row.plant]);
    this.#cache.delete(row.user);
    this.#unsavedCharacters += row.plant.length;
  }

  /** The rows of a user that are not known to be saved, in log order. */
  #rowsInMemory(user: string): readonly PlantRow[] {
    const [first, second] = [this.#rowsInSave.get(user), this.#newRows.get(user)];
    return first && second ? [...first, ...second] : (first ?? second ?? []);
  }

  #readPage(user: string, query: PageQuery): PlantPage {
    const { after, upTo, limit } = query;
    const saved = this.#readSaved(user, query);
    let plants = saved.plants ?? '';
    let last = saved.last ?? after;
    let count = Number(saved.count);
    let bytes = Buffer.byteLength(plants);
    const isFull = (): boolean => count === limit || bytes >= PAGE_BYTES;
    if (isFull() && this.#countSaved(user, upTo) > numberOf(saved))
      return { plants, count, last, hasMore: true };
    for (const row of this.#rowsInMemory(user)) {
      if (row.position <= last || row.position > upTo) continue;
      if (isFull()) return { plants, count, last, hasMore: true };
      plants = count === 0 ? row.plant : `${plants},${row.plant}`;
      last = row.position;
      bytes += Buffer.byteLength(row.plant);
      count++;
    }
    return { plants, count, last, hasMore: false };
  }

  /** Large plants are read one by one, since SQLite would read all of them before it counts their bytes. */
  #readSaved(user: string, { after, upTo, limit }: PageQuery): SavedPage {
    const largest = Math.floor(PAGE_BYTES / limit);
    const end = this.#lastSaved(upTo);
    return this.#file.read(({ larger, page, rows }) =>
      larger.get(user, after, end, limit, largest) === undefined
        ? (page.get(user, after, end, limit) as SavedPage)
        : takePage(rows.iterate(user, after, end, limit) as Iterable<SavedRow>),
    );
  }

  /** How many plants of a user were created up to a position. */
  #countUpTo(user: string, position: Position): number {
    const unsaved = this.#rowsInMemory(user).filter((row) => row.position <= position);
    return this.#countSaved(user, position) + unsaved.length;
  }

  #countSaved(user: string, position: Position): number {
    return numberOf(this.#file.read(({ last }) => last.get(user, this.#lastSaved(position))));
  }

  #lastSaved(position: Position): Position {
    return position < this.#savedPosition ? position : this.#savedPosition;
  }

  /**
   * The position of the saved plant with this number, by binary search, since numbers grow with positions.
   */
  #findSaved(
    user: string,
    number: number,
    { after, upTo }: { after: Position; upTo: Position },
  ): Position | undefined {
    for (let [low, high] = [after + 1n, this.#lastSaved(upTo)]; low <= high; ) {
      const middle = (low + high) / 2n;
      const found = this.#file.read(({ last }) => last.get(user, middle)) as LastRow | undefined;
      if (numberOf(found) === number) return found?.position;
      if (numberOf(found) < number) low = middle + 1n;
      else high = (found as LastRow).position - 1n;
    }
    return undefined;
  }

  #clear(): void {
    ({ position: this.#position, eventId: this.#eventId } = this.#file.checkpoint);
    this.#savedPosition = this.#position;
    this.#newRows = new Map();
    this.#rowsInSave = new Map();
    this.#unsaved = 0;
    this.#unsavedCharacters = 0;
    this.#cache.clear();
  }
}

type SavedRow = { position: Position; number: bigint; plant: string };
type SavedPage = {
  plants: string | null;
  count: number | bigint;
  last: Position | null;
  number: bigint | null;
};

function takePage(rows: Iterable<SavedRow>): SavedPage {
  const plants: string[] = [];
  let bytes = 0;
  let last: SavedRow | undefined;
  for (const row of rows) {
    plants.push(row.plant);
    last = row;
    bytes += Buffer.byteLength(row.plant) + 1;
    if (bytes > PAGE_BYTES) break;
  }
  const { position = null, number = null } = last ?? {};
  return { plants: plants.join(), count: plants.length, last: position, number };
}

type LastRow = { position: Position; number: bigint };

const numberOf = (row: unknown): number =>
  Number((row as { number: bigint | null } | undefined)?.number ?? 0);

type Rows = Map<string, PlantRow[]>;

function addTo(rows: Rows, row: PlantRow): void {
  const ofUser = rows.get(row.user);
  if (ofUser) ofUser.push(row);
  else rows.set(row.user, [row]);
}

type Statements = ReturnType<typeof prepare>;

function prepare(db: DatabaseSync) {
  return {
    // A subquery with a LIMIT keeps its ORDER BY; an ORDER BY in group_concat would sort again.
    page: db.prepare(`
      SELECT group_concat(plant, ',') AS plants, count(*) AS count, max(position) AS last, max(number) AS number
      FROM (
        SELECT position, number, plant FROM plants WHERE user = ? AND position > ? AND position <= ?
        ORDER BY position LIMIT ?
      )`),
    larger: db.prepare(`
      SELECT 1 FROM (
        SELECT octet_length(plant) AS bytes FROM plants WHERE user = ? AND position > ? AND position <= ?
        ORDER BY position LIMIT ?
      )
      WHERE bytes > ? LIMIT 1`),
    rows: db.prepare(`
      SELECT position, number, plant FROM plants WHERE user = ? AND position > ? AND position <= ?
      ORDER BY position LIMIT ?`),
    last: db.prepare(
      'SELECT position, number FROM plants WHERE user = ? AND position <= ? ORDER BY position DESC LIMIT 1',
    ),
  };
}
