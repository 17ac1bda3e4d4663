import { LRUCache } from 'lru-cache';
import type { Position, ReadTo, RecordedEvent } from '../src/eventStore/eventStore.ts';
import { parsePlantEvent } from '../src/plants/events.ts';
import type { PlantValues } from './plantsFormat.ts';
import { PAGE_BYTES, type PageQuery, type PlantPage, SavedPlants } from './savedPlants.ts';
import type { View, ViewCheckpoint } from './view.ts';
import { ViewDamaged } from './viewFile.ts';

/** A plant as the view has it: `position` is that of its creation, `plant` its JSON. */
export type PlantRow = { user: string; id: string; position: Position; plant: string };

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

/** Bytes of cached pages. */
const CACHE_BYTES = 64 * 1024 * 1024;

/**
 * The view: each user's plants in log order. New rows stay in memory, where queries see them, until they are
 * saved: the file is ordered by user, so a row costs a page, and many events share a save.
 */
export class PlantsByUser implements View {
  readonly name = 'plantsByUser';
  onDamage = () => {};
  readTo: ReadTo | undefined;
  #savedReadTo: ReadTo | undefined;
  readonly #saved: SavedPlants;
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
    return new PlantsByUser(await SavedPlants.open(file));
  }

  private constructor(saved: SavedPlants) {
    this.#saved = saved;
    ({ position: this.#position, eventId: this.#eventId } = this.#file.checkpoint);
    this.#savedPosition = this.#position;
    this.readTo = this.#savedReadTo = this.#file.readTo;
    this.#file.onDamage = () => {
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
    return this.#saved.positionOf(user, number, { after, upTo: this.#lastSaved(upTo) });
  }

  get #file(): SavedPlants['file'] {
    return this.#saved.file;
  }

  async #save(): Promise<void> {
    const { readTo } = this;
    if (this.#unsaved === 0 && readTo === this.#savedReadTo) return;
    const [checkpoint, events, characters] = [this.applied, this.#unsaved, this.#unsavedCharacters];
    if (this.#rowsInSave.size === 0) this.#rowsInSave = this.#newRows;
    else for (const rows of this.#newRows.values()) for (const row of rows) addTo(this.#rowsInSave, row); // failed
    this.#newRows = new Map();
    await this.#file.save(checkpoint, readTo);
    this.#rowsInSave = new Map();
    this.#savedPosition = checkpoint.position;
    this.#savedReadTo = readTo;
    this.#unsaved -= events;
    this.#unsavedCharacters -= characters;
  }

  #add(row: PlantRow): void {
    addTo(this.#newRows, row);
    this.#file.add([row.user, row.position, row.id, row.plant] satisfies PlantValues);
    this.#cache.delete(row.user);
    this.#unsavedCharacters += row.plant.length;
  }

  /** The rows of a user that are not known to be saved, in log order. */
  #rowsInMemory(user: string): readonly PlantRow[] {
    const [first, second] = [this.#rowsInSave.get(user), this.#newRows.get(user)];
    return first && second ? [...first, ...second] : (first ?? second ?? []);
  }

  #readPage(user: string, { after, upTo, limit }: PageQuery): PlantPage {
    const saved = this.#saved.page(user, { after, upTo: this.#lastSaved(upTo), limit });
    let { plants, count, last, bytes } = saved;
    const isFull = (): boolean => count === limit || bytes >= PAGE_BYTES;
    if (saved.hasMore) return { plants, count, last, hasMore: true };
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

  /** How many plants of a user were created up to a position. */
  #countUpTo(user: string, position: Position): number {
    const unsaved = this.#rowsInMemory(user).filter((row) => row.position <= position);
    return this.#countSaved(user, position) + unsaved.length;
  }

  #countSaved(user: string, position: Position): number {
    return this.#saved.countUpTo(user, this.#lastSaved(position));
  }

  #lastSaved(position: Position): Position {
    return position < this.#savedPosition ? position : this.#savedPosition;
  }

  #clear(): void {
    ({ position: this.#position, eventId: this.#eventId } = this.#file.checkpoint);
    this.#savedPosition = this.#position;
    this.#newRows = new Map();
    this.#rowsInSave = new Map();
    this.#unsaved = 0;
    this.#unsavedCharacters = 0;
    this.readTo = undefined;
    this.#cache.clear();
  }
}

type Rows = Map<string, PlantRow[]>;

function addTo(rows: Rows, row: PlantRow): void {
  const ofUser = rows.get(row.user);
  if (ofUser) ofUser.push(row);
  else rows.set(row.user, [row]);
}
