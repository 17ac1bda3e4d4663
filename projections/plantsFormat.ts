import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { type Position, START } from '../src/eventStore/eventStore.ts';
import { DamagedView, type ViewFormat } from './viewDatabase.ts';
import type { Row } from './viewProtocol.ts';

// The file of the view plantsByUser. Its checksums detect what a disk, or a wrong write, has altered: not an attacker,
// who would alter them as well; `verify` compares the rows with the log.

/** The values of a row to be saved. */
export type PlantValues = readonly [user: string, position: Position, id: string, plant: string];

/** A user's last plant up to some position, and the checksum of all their plants up to it; number 0 is none. */
export type LastPlant = Readonly<{ position: Position; number: number; chain: number }>;

/** A user: their last plant, the bytes of their largest one, and the user that follows in the order of the file. */
type User = LastPlant & Readonly<{ user: string; largest: number; next: string | null }>;

export const CHECKSUM_MISMATCH = 'its rows do not have the checksums that were saved with them';

/** CRC-32, signed: SQLite then stores it in four bytes. */
const checksum = (text: string, start = 0): number => crc32(text, start >>> 0) | 0;

/** The checksum of a user's plants after some more, separated by commas as in a list. */
export const chainOf = (start: number, plants: string): number => checksum(`${plants},`, start);

/** Before the first plant of a user. */
export const noPlant = (user: string): LastPlant => ({ position: START, number: 0, chain: checksum(user) });

// No value but a plant has a control character.
const checksumOfPlant = (user: string, id: string, { position, number, chain }: LastPlant): number =>
  checksum(`${user}\n${id}\n${position} ${number}`, chain);
const checksumOfUser = ({ user, position, number, chain, largest, next }: User): number =>
  checksum(`${user}\n${next ?? ''}\n${position} ${number} ${largest}`, chain);

/** Precedes all users, so that every user has a predecessor. */
const BEFORE_USERS: User = { user: '', ...noPlant(''), largest: 0, next: null };
const NO_USERS = `INSERT INTO users VALUES ('', 0, 0, ${BEFORE_USERS.chain}, 0, NULL, ${checksumOfUser(BEFORE_USERS)});`;

/**
 * Plants are numbered per user, from 1, in log order. `chain` is the checksum of the user's plants up to a row, so a
 * page is verified as a whole; `checksum` is that of the row's other values and `chain`. A user's row has those of
 * their last plant, and names the next user, which proves that there is none between them.
 */
export const PLANTS_BY_USER = {
  applicationId: 0x50566965, // 'PVie' in ASCII
  version: 3,
  cacheKiB: 16_384, // the rows of one user are together, not those of one time
  schema: `
    CREATE TABLE plants (
      user     TEXT    NOT NULL,
      position INTEGER NOT NULL,
      number   INTEGER NOT NULL,
      id       TEXT    NOT NULL,
      plant    TEXT    NOT NULL,
      chain    INTEGER NOT NULL,
      checksum INTEGER NOT NULL,
      PRIMARY KEY (user, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE users (
      user     TEXT    NOT NULL PRIMARY KEY,
      position INTEGER NOT NULL,
      number   INTEGER NOT NULL,
      chain    INTEGER NOT NULL,
      largest  INTEGER NOT NULL,
      next     TEXT,
      checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    ${NO_USERS}`,
  insert: prepareInsert,
  empty: `DELETE FROM plants; DELETE FROM users; ${NO_USERS}`,
  check: checkPlants,
} as const satisfies ViewFormat;

/** What finds a user. */
export function prepareUser(db: DatabaseSync): StatementSync {
  const statement = db.prepare(`
    SELECT user, position, number, chain, largest, next, checksum, user = ?1 OR next IS NULL OR next > ?1
    FROM users WHERE user <= ?1 ORDER BY user DESC LIMIT 1`);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true); // half the cost of objects
  return statement;
}

type Values = readonly unknown[];

/** A user, or their predecessor, which proves that the user has no plants. @throws DamagedView */
export function findUser(statement: StatementSync, name: string): User {
  const row = (statement.get(name) ?? []) as unknown as Values;
  const [user, position, number, chain, largest, next, checksum, isProof] = row;
  const found = {
    user: user as string,
    position: position as Position,
    number: Number(number),
    chain: Number(chain),
    largest: Number(largest),
    next: next as string | null,
  };
  if (isProof !== 1n || Number(checksum) !== checksumOfUser(found)) throw new DamagedView(CHECKSUM_MISMATCH);
  return found;
}

/** The columns of `toLastPlant`. */
export const LAST_PLANT_COLUMNS = 'position, number, id, chain, checksum';

/** Verifies a row of a user, an array of these columns. @throws DamagedView */
export function toLastPlant(user: string, row: unknown): LastPlant {
  const [position, number, id, chain, checksum] = row as Values;
  const last = { position: position as Position, number: Number(number), chain: Number(chain) };
  if (Number(checksum) !== checksumOfPlant(user, id as string, last))
    throw new DamagedView(CHECKSUM_MISMATCH);
  return last;
}

/** Prepares the insertion of rows: those of a user one after the other, in log order. */
function prepareInsert(db: DatabaseSync): (rows: readonly Row[]) => void {
  const find = prepareUser(db);
  const insert = db.prepare('INSERT INTO plants VALUES (?, ?, ?, ?, ?, ?, ?)');
  const replace = db.prepare('INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?, ?, ?, ?)');

  function put(user: User): void {
    const { user: name, position, number, chain, largest, next } = user;
    replace.run(name, position, number, chain, largest, next, checksumOfUser(user));
  }

  function findOrAdd(name: string): User {
    const found = findUser(find, name);
    if (found.user === name) return found;
    put({ ...found, next: name });
    return { user: name, ...noPlant(name), largest: 0, next: found.next };
  }

  return (rows) => {
    let user: User | undefined;
    for (const [name, position, id, plant] of rows as readonly PlantValues[]) {
      if (user?.user !== name) {
        if (user) put(user);
        user = findOrAdd(name);
      }
      const last = { position, number: user.number + 1, chain: chainOf(user.chain, plant) };
      insert.run(name, position, last.number, id, plant, last.chain, checksumOfPlant(name, id, last));
      user = { ...user, ...last, largest: Math.max(user.largest, Buffer.byteLength(plant)) };
    }
    if (user) put(user);
  };
}

/** Rows are checked in steps, between which the file is written. */
const CHECKED_ROWS = 1_000;
const CHECKED_CHARACTERS = 1024 * 1024;

/** Verifies all rows, in steps, each in one snapshot. @throws DamagedView */
function* checkPlants(db: DatabaseSync): Generator<void> {
  const find = prepareUser(db);
  const rows = db.prepare(`
    SELECT ${LAST_PLANT_COLUMNS}, user, plant FROM plants WHERE (user, position) > (?, ?) ORDER BY user, position`);
  rows.setReadBigInts(true);
  rows.setReturnArrays(true);
  let user = '';
  let last = noPlant(user);

  /** That a user has no more plants, and who follows. */
  function checkUser(next: string | null): void {
    const { user: name, position, number, chain, next: following } = findUser(find, user);
    const isSame = position === last.position && number === last.number && chain === last.chain;
    if (!isSame || name !== user || following !== next) throw new DamagedView(CHECKSUM_MISMATCH);
  }

  function checkRow(row: Values, owner: string, plant: string): void {
    if (owner !== user) {
      checkUser(owner);
      user = owner;
      last = noPlant(user);
    }
    const next = toLastPlant(user, row);
    if (next.number !== last.number + 1 || next.chain !== chainOf(last.chain, plant))
      throw new DamagedView(CHECKSUM_MISMATCH);
    last = next;
  }

  for (let isEnd = false; !isEnd; ) {
    let [count, characters] = [0, 0];
    isEnd = true;
    for (const row of rows.iterate(user, last.position) as Iterable<unknown> as Iterable<Values>) {
      const [owner, plant] = row.slice(5) as [string, string];
      checkRow(row, owner, plant);
      characters += plant.length;
      isEnd = ++count < CHECKED_ROWS && characters < CHECKED_CHARACTERS;
      if (!isEnd) break;
    }
    if (isEnd) checkUser(null);
    yield;
  }
}
