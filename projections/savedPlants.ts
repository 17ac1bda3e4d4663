import type { DatabaseSync } from 'node:sqlite';
import { type Position, START } from '../src/eventStore/eventStore.ts';
import {
  CHECKSUM_MISMATCH,
  chainOf,
  findUser,
  LAST_PLANT_COLUMNS,
  type LastPlant,
  noPlant,
  PLANTS_BY_USER,
  prepareUser,
  toLastPlant,
} from './plantsFormat.ts';
import { DamagedView } from './viewDatabase.ts';
import { ViewFile } from './viewFile.ts';

/** The plants after a position, up to another one, at most `limit` of them; fewer if they are large. */
export type PageQuery = { after: Position; upTo: Position; limit: number };

/**
 * `plants`: JSON objects, separated by commas. `last`: the position of the last one; that of the query if there is
 * none. `hasMore`: others follow up to `upTo`.
 */
export type PlantPage = { plants: string; count: number; last: Position; hasMore: boolean };

/** A page ends when its plants have so many bytes, however few plants that is. */
export const PAGE_BYTES = 64 * 1024;

/** The plants in the view's file. What is read is verified: it is as it was saved, or a ViewDamaged is thrown. */
export class SavedPlants {
  readonly file: ViewFile<Statements>;

  static async open(file: string): Promise<SavedPlants> {
    const thread = new URL('./plantsByUserThread.ts', import.meta.url);
    return new SavedPlants(await ViewFile.open(file, { format: PLANTS_BY_USER, thread, prepare }));
  }

  private constructor(file: ViewFile<Statements>) {
    this.file = file;
  }

  /** A page of a user's plants, and its bytes. @throws ViewDamaged */
  page(user: string, query: PageQuery): PlantPage & { bytes: number } {
    return this.file.read((statements) => readPage(statements, user, query));
  }

  /** How many plants of a user were created up to a position. @throws ViewDamaged */
  countUpTo(user: string, position: Position): number {
    return this.file.read((statements) => lastUpTo(statements, user, position).number);
  }

  /**
   * The position of a user's plant with this number, which is after a position, and not after another one; by binary
   * search, since numbers grow with positions. @throws ViewDamaged
   */
  positionOf(user: string, number: number, { after, upTo }: Omit<PageQuery, 'limit'>): Position {
    return this.file.read(({ before }) => {
      for (let [low, high] = [after + 1n, upTo]; low <= high; ) {
        const middle = (low + high) / 2n;
        const row = before.get(user, middle);
        const found = row ? toLastPlant(user, row) : noPlant(user);
        if (found.number === number) return found.position;
        if (found.number < number) low = middle + 1n;
        else high = found.position - 1n;
      }
      throw new DamagedView(CHECKSUM_MISMATCH);
    });
  }
}

type Statements = ReturnType<typeof prepare>;
type Page = { plants: string | null; count: number | bigint; last: Position | null };

function prepare(db: DatabaseSync) {
  const ofUser = `SELECT ${LAST_PLANT_COLUMNS} FROM plants WHERE user = ? AND`;
  const before = db.prepare(`${ofUser} position <= ? ORDER BY position DESC LIMIT 1`);
  const following = db.prepare(`${ofUser} position > ? ORDER BY position LIMIT 1`);
  for (const statement of [before, following]) statement.setReturnArrays(true);
  return {
    user: prepareUser(db),
    before,
    following,
    // A subquery with a LIMIT keeps its ORDER BY; an ORDER BY in group_concat would sort again.
    page: db.prepare(`
      SELECT group_concat(plant, ',') AS plants, count(*) AS count, max(position) AS last FROM (
        SELECT position, plant FROM plants WHERE user = ? AND position > ? AND position <= ?
        ORDER BY position LIMIT ?
      )`),
    larger: db.prepare(`
      SELECT 1 FROM (
        SELECT octet_length(plant) AS bytes FROM plants WHERE user = ? AND position > ? AND position <= ?
        ORDER BY position LIMIT ?
      )
      WHERE bytes > ? LIMIT 1`),
    rows: db.prepare(`
      SELECT position, plant FROM plants WHERE user = ? AND position > ? AND position <= ?
      ORDER BY position LIMIT ?`),
  };
}

/** A user's last plant up to a position. @throws DamagedView */
function lastUpTo(
  statements: Statements,
  user: string,
  position: Position,
  of = owner(statements, user),
): LastPlant {
  if (of.position <= position) return of;
  const [before, following] = [statements.before, statements.following].map((statement) => {
    const row = statement.get(user, position);
    return row && toLastPlant(user, row);
  });
  const last = before ?? noPlant(user);
  if (following?.number !== last.number + 1) throw new DamagedView(CHECKSUM_MISMATCH);
  return last;
}

/** A user's last plant, and the bytes of their largest one. @throws DamagedView */
function owner({ user }: Statements, name: string): LastPlant & { largest: number } {
  const found = findUser(user, name);
  return found.user === name ? found : { ...noPlant(name), largest: 0 };
}

/** The plants between two rows that are verified have the checksum that leads from one to the other. */
function readPage(statements: Statements, user: string, query: PageQuery): PlantPage & { bytes: number } {
  const { after, upTo, limit } = query;
  const of = owner(statements, user);
  const first = after === START ? noPlant(user) : lastUpTo(statements, user, after, of);
  const end = lastUpTo(statements, user, upTo, of);
  if (end.number <= first.number) return { plants: '', count: 0, last: after, hasMore: false, bytes: 0 };
  const page = readPlants(statements, user, { ...query, largest: of.largest });
  const plants = page.plants ?? '';
  const count = Number(page.count);
  const bytes = Buffer.byteLength(plants);
  const number = first.number + count;
  const last = number === end.number ? end : lastUpTo(statements, user, page.last ?? START, of);
  const isComplete = bytes >= PAGE_BYTES || count === Math.min(limit, end.number - first.number);
  if (!isComplete || last.number !== number || last.chain !== chainOf(first.chain, plants))
    throw new DamagedView(CHECKSUM_MISMATCH);
  return { plants, count, last: last.position, hasMore: number < end.number, bytes };
}

/** Large plants are read one by one, since SQLite would read all of them before it counts their bytes. */
function readPlants(
  { larger, page, rows }: Statements,
  user: string,
  { after, upTo, limit, largest }: PageQuery & { largest: number },
): Page {
  const bytes = Math.floor(PAGE_BYTES / limit);
  return largest > bytes && larger.get(user, after, upTo, limit, bytes) !== undefined
    ? takePage(rows.iterate(user, after, upTo, limit) as Iterable<SavedRow>)
    : (page.get(user, after, upTo, limit) as Page);
}

type SavedRow = { position: Position; plant: string };

function takePage(rows: Iterable<SavedRow>): Page {
  const plants: string[] = [];
  let bytes = 0;
  let last: Position | null = null;
  for (const { position, plant } of rows) {
    plants.push(plant);
    last = position;
    bytes += Buffer.byteLength(plant) + 1;
    if (bytes > PAGE_BYTES) break;
  }
  return { plants: plants.join(), count: plants.length, last };
}
