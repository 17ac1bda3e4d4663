import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { stopClock } from '@event-sourced/testing/clock';
import { appendTo, logWith, plantOf, writeTo } from '@event-sourced/testing/logs';
import { overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { LogReplaced, type RecordedEvent } from '../../../event-log/src/eventStore.ts';
import { openLogReader } from '../../../event-log/src/sqlite/read.ts';
import { everything } from '../../../event-log/src/testing/contract.ts';
import { REACHED_TIMEOUT_MS, ViewBehind } from '../../../event-log/src/views/waiting.ts';
import { entryLeafHash, MerkleTree } from '../../../tlog/src/merkle/merkleTree.ts';
import { leafHashes, rootFromTiles, tileHashes, tileRoot } from '../../../tlog/src/merkle/tiles.ts';
import { eventEntry } from '../../src/digest/eventEntry.ts';
import { TreeTiles } from '../../src/view/treeTiles.ts';
import { MerkleTreeView } from '../../src/view/treeView.ts';
import { followTree, logIn, rootOf, treeIn } from '../support/tree.ts';

/** Three full tiles of level 0, and a partial one. */
const EVENTS = 3 * 256 + 20;

/** Follows the log in a directory to its end, and closes the view. Returns its last head. */
async function follow(dir: string) {
  const { view, follower, close, logged } = followTree(dir);
  await follower.reached(await logIn(dir).lastPosition());
  const { head } = view;
  await close();
  return { head, logged: logged() };
}

/** The tree in a directory, without a follower, until the end of the test. */
function opened(dir: string): MerkleTreeView {
  const view = MerkleTreeView.open(treeIn(dir));
  onTestFinished(() => view.close());
  return view;
}

/** The log with its closed tree, and the root of each of its sizes. */
const original = { dir: '', roots: [] as string[] };

beforeAll(async () => {
  const dir = logWith({ events: EVENTS, dir: mkdtempSync(join(tmpdir(), 'plant-store-')) });
  const log = openLogReader(join(dir, 'log.db'), { forHashing: true });
  const view = MerkleTreeView.open(treeIn(dir));
  view.bind(await log.logId());
  const events = await everything(log);
  view.apply(events);
  view.close();
  await log.close();
  const tree = new MerkleTree();
  const roots = [tree.root()];
  for (const event of events) {
    tree.append(entryLeafHash(eventEntry(event)));
    roots.push(tree.root());
  }
  Object.assign(original, { dir, roots });
});

afterAll(() => rmSync(original.dir, { recursive: true }));

/** A copy of the log with its tree. */
function copy(): string {
  const dir = tempDir();
  cpSync(original.dir, dir, { recursive: true });
  return dir;
}

const complete = () => ({ size: EVENTS, position: BigInt(EVENTS), root: original.roots[EVENTS] });

/** The sizes of smaller trees that the tiles do not have the root of. @throws ViewBehind */
async function wrongSizes(view: MerkleTreeView, roots = original.roots): Promise<number[]> {
  const wrong: number[] = [];
  for (let size = 1; size < roots.length; size++)
    if ((await rootFromTiles(size, (tile) => view.readTile(tile))) !== roots[size]) wrong.push(size);
  return wrong;
}

describe('the Merkle tree of a log', () => {
  test.for([0, 256, 257])('of %i events has the root of RFC 9162', async (events) => {
    const dir = logWith({ events });
    const { head } = await follow(dir);
    expect(head).toMatchObject({ size: events, root: await rootOf(logIn(dir), events) });
  });

  test('has the root of the log, and tiles for it and for every smaller tree', async () => {
    const { view, follower } = followTree(copy());
    expect(() => follower.readable).toThrow(ViewBehind);
    await follower.reached(0n);
    expect(view.head).toEqual({ logId: await logIn(original.dir).logId(), ...complete() });
    expect(await wrongSizes(view)).toEqual([]);
    expect([20, 21].map((width) => view.has({ level: 0, index: 3, width }))).toEqual([true, false]);
    expect(() => view.readTile({ level: 0, index: 3, width: 21 })).toThrow(ViewBehind);
  });

  test('has the entries of events, whose hashes are at level 0', async () => {
    const { view, follower } = followTree(copy());
    await follower.reached(0n);
    const events = (await everything(logIn(original.dir))).slice(256, 356);
    const entries = new Uint8Array(Buffer.from(events.map(eventEntry).join(''), 'hex'));
    expect(view.readEntries(1, 100)).toEqual(entries);
    expect(view.entryAt(300)).toBe(eventEntry(events[44] as RecordedEvent));
    expect(view.readTile({ level: 0, index: 1, width: 100 })).toEqual(leafHashes(entries));
    expect(() => view.readEntries(3, 21)).toThrow(ViewBehind);
    expect(() => view.entryAt(EVENTS)).toThrow(ViewBehind);
  });

  test('keeps the bytes of a tile that was read while it grows into the next one', async () => {
    const dir = logWith({ events: 250 });
    const { view, follower } = followTree(dir);
    await follower.reached(250n);
    const read = () => [view.readTile({ level: 0, index: 0, width: 250 }), view.readEntries(0, 250)] as const;
    const before = read();
    const copies = before.map((bytes) => bytes.slice());
    logWith({ dir, events: 20, after: 250 });
    await follower.reached(270n);
    expect(before).toEqual(copies);
    expect(read()).toEqual(copies);
  });

  test('has the positions of the events of its tiles', async () => {
    const server = await startFakeServer();
    const events = writeTo(server, ...Array.from({ length: 300 }, (_, i) => plantOf('alice', i, 'Fern')));
    const { view, follower } = followTree(tempDir(), await overFakeServer(server.url));
    const at = (n: number) => events[n]?.position as bigint;
    await follower.reached(at(299));
    expect([view.tileStart(0), view.tileStart(1)]).toEqual([0n, at(255)]);
    for (const n of [0, 255, 256, 299]) {
      const entry = view.entryAt(n);
      expect(view.find(entry, at(n))).toBe(n);
      const other = (n + 256) % 300;
      const isInTile = Math.floor(other / 256) === Math.floor(n / 256);
      expect(view.find(entry, at(other))).toBe(isInTile ? n : undefined);
    }
  });

  test('finds the tile of a position without a scan of all tiles', () => {
    using db = new DatabaseSync(treeIn(original.dir), { readOnly: true });
    const prepared = vi.spyOn(DatabaseSync.prototype, 'prepare');
    onTestFinished(() => prepared.mockRestore());
    new TreeTiles(db, BigInt(EVENTS));
    const queries = prepared.mock.calls.map(([sql]) => sql).filter((sql) => sql.startsWith('SELECT'));
    prepared.mockRestore();
    expect(queries.length).toBeGreaterThan(3);
    for (const sql of queries) {
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql.replaceAll('?', '1')}`).all();
      const steps = plan.map(({ detail }) => String(detail));
      expect([sql, steps.filter((step) => /TEMP B-TREE|SCAN tiles(?! USING)/.test(step))]).toEqual([sql, []]);
    }
  });

  test('has all events as entries, including unknown types, large events, and events without canonical form', async () => {
    const dir = appendTo(
      tempDir(),
      { stream: 'plant-a/1', id: '1', type: 'PlantRemoved', data: {} },
      { stream: 'plant-a/2', id: '2', data: '{ "not":  "canonical" }' },
      { stream: 'plant-a/3', id: '3', data: { large: 'x'.repeat(70_000) } },
      { stream: 'plant-a/4', id: '4', data: 'no JSON', metadata: '\\ud800' },
    );
    const { head } = await follow(dir);
    expect(head).toMatchObject({ size: 4, root: await rootOf(logIn(dir), 4) });
  });

  test('is resumed at its bookmark, and grows with the log', async () => {
    const dir = copy();
    logWith({ dir, events: 300, after: EVENTS });
    const { head, logged } = await follow(dir);
    const size = EVENTS + 300;
    expect(head).toMatchObject({ size, root: await rootOf(logIn(dir), size) });
    expect(logged).toContain(`"from":"${EVENTS}"`);
    expect(logged).not.toContain('rebuilding');
  });

  test('grows while it is read; what it has not reached is waited for', async () => {
    const dir = logWith({ events: 10 });
    const { view, follower } = followTree(dir);
    await follower.reached(10n);
    stopClock();
    const reached = follower.reached(11n);
    logWith({ dir, events: 1, after: 10 });
    await reached;
    expect(view.head).toMatchObject({ size: 11, root: await rootOf(logIn(dir), 11) });
    await follower.reached(11n, view.head.logId);
    const late = [
      follower.reached(12n, undefined, REACHED_TIMEOUT_MS),
      follower.reached(1n, 'another log', REACHED_TIMEOUT_MS),
    ].map((one) => expect(one).rejects.toThrow(ViewBehind));
    vi.advanceTimersByTime(REACHED_TIMEOUT_MS);
    await Promise.all(late);
  });

  test('whose commit fails has the root and the tiles of its bookmark, and then of all events', async () => {
    const dir = copy();
    logWith({ dir, events: 600, after: EVENTS });
    const log = logIn(dir);
    const added = (await everything(log)).slice(EVENTS);
    inTree(
      dir,
      `CREATE TRIGGER full BEFORE UPDATE ON bookmark WHEN NEW.position = ${EVENTS + 400}
       BEGIN SELECT RAISE(ROLLBACK, 'database or disk is full'); END`,
    );
    const view = opened(dir);
    view.apply(added.slice(0, 400));
    expect(() => view.save()).toThrow('full');
    expect(view.head).toMatchObject(complete());
    expect(await wrongSizes(view)).toEqual([]);
    view.apply(added);
    view.save();
    const size = EVENTS + 600;
    const head = { size, root: await rootOf(log, size) };
    expect(view.head).toMatchObject(head);
    expect(await wrongSizes(view)).toEqual([]);
    view.close();
    const again = opened(dir);
    expect(again.head).toMatchObject(head);
    expect(await rootFromTiles(size, (tile) => again.readTile(tile))).toBe(head.root);
  });
});

describe('a Merkle tree is rebuilt', () => {
  test.for<[what: string, (dir: string) => void]>([
    ['missing', (dir) => rmSync(treeIn(dir))],
    ['truncated', (dir) => truncateSync(treeIn(dir), 20_000)],
    ['of another version', (dir) => inTree(dir, 'PRAGMA user_version = 99')],
    ['of another log', (dir) => inTree(dir, "UPDATE bookmark SET log_id = 's1'")],
    ['ahead of the log', (dir) => inTree(dir, 'UPDATE bookmark SET position = 9999')],
    ['without its last tile', (dir) => inTree(dir, 'DELETE FROM tiles WHERE level = 0 AND number = 3')],
    ['with an altered last entry', (dir) => inTree(dir, zeroAt(0, 3, 100))],
    ['with an altered hash of level 1', (dir) => inTree(dir, zeroAt(1, 0, 64))],
    ['with another root', (dir) => inTree(dir, "UPDATE head SET root = 'other'")],
    ['with text instead of hashes', (dir) => asText(dir, 'level = 0 AND number = 3')],
    [
      'with another start of its last tile',
      (dir) => inTree(dir, 'UPDATE tiles SET starts_after = starts_after + 1 WHERE number = 3'),
    ],
    [
      'with consistent entries that are not those of the log',
      (dir) => inTree(dir, `DELETE FROM head; ${zeroAt(0, 3, 100)}`),
    ],
  ])('if its file is %s', async ([, damage]) => {
    const dir = copy();
    damage(dir);
    expect((await follow(dir)).head).toMatchObject(complete());
    expect(tilesIn(dir)).toEqual(tilesIn(original.dir));
    const again = await follow(dir);
    expect(again.head).toMatchObject(complete());
    expect(again.logged).not.toContain('rebuilding');
  });

  test('if the log is replaced by an older backup that has grown differently', async () => {
    const dir = tempDir();
    logWith({ dir, events: 300 });
    copyFileSync(join(dir, 'log.db'), join(dir, 'backup.db'));
    logWith({ dir, events: 300, after: 300 });
    await follow(dir);
    copyFileSync(join(dir, 'backup.db'), join(dir, 'log.db'));
    logWith({ dir, events: 400, after: 300, name: "'other ' || id", user: "'carol'" });
    inLog(dir, `UPDATE events SET id = id || 'x' WHERE position > 300`);
    const { head, logged } = await follow(dir);
    expect(head).toMatchObject({ size: 700, root: await rootOf(logIn(dir), 700) });
    expect(logged).toContain('the log has lost events, as after a restore');
  });

  test('if its last tile starts where the log has no event', async () => {
    const view = MerkleTreeView.open(treeIn(copy()));
    const readAll = () => Promise.reject(new LogReplaced('there is no event at this position'));
    expect(await view.mismatch({ readAll } as never)).toBe('its last 20 entries do not match the log');
    view.close();
  });

  test('if it does not match the log, and is kept as a copy, which replaces an older one', async () => {
    const dir = copy();
    const kept = `${treeIn(dir)}.mismatch`;
    writeFileSync(kept, 'an older copy');
    inLog(dir, `UPDATE events SET data = '{}' WHERE position = ${EVENTS - 5}`);
    const { logged } = await follow(dir);
    expect(JSON.parse(logged.split('\n')[0] as string)).toMatchObject({ msg: 'rebuilding view', copy: kept });
    copyFileSync(kept, treeIn(dir));
    expect(tilesIn(dir)).toEqual(tilesIn(original.dir));
  });

  test('once a full tile that was altered is read', async () => {
    const dir = logWith({ events: 257 * 256 });
    const { view, follower, logged } = followTree(dir);
    await follower.reached(257n * 256n);
    view.save();
    const read = () => view.readTile({ level: 0, index: 200, width: 256 });
    const { root } = view.head;
    inTree(dir, zeroAt(0, 200, 64));
    expect(read).toThrow(ViewBehind);
    expect(() => follower.readable).toThrow(ViewBehind);
    await follower.reached(257n * 256n);
    expect(tileRoot(read())).toBe(tileHashes(view.readTile({ level: 1, index: 0, width: 256 }))[200]);
    expect(view.head.root).toBe(root);
    expect(follower.rebuilds).toBe(1);
    expect(logged()).toContain('does not have its hash in the tile above');
  });
});

test('no Merkle tree has a root or a tile that the log does not have, whichever bytes of its file are changed', async () => {
  const bytes = readFileSync(treeIn(original.dir));
  // Half of the bytes are from level 1, which has few.
  const start = bytes.indexOf(Buffer.from(tilesIn(original.dir).at(-1)?.hashes as Uint8Array));
  const at = fc.oneof(fc.nat(bytes.length - 1), fc.integer({ min: start, max: start + 95 }));
  const change = fc.record({ at, mask: fc.integer({ min: 1, max: 255 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      const dir = copy();
      const changed = Buffer.from(bytes);
      for (const { at, mask } of changes) changed[at] = (changed[at] as number) ^ mask;
      writeFileSync(treeIn(dir), changed);
      const { view, follower, close } = followTree(dir);
      for (let isRight = false; !isRight; ) {
        await follower.reached(BigInt(EVENTS));
        expect(view.head).toMatchObject(complete());
        try {
          expect(await wrongSizes(view)).toEqual([]);
          isRight = true;
        } catch (error) {
          expect(error).toBeInstanceOf(ViewBehind);
        }
      }
      await close();
    }),
    { numRuns: 15 },
  );
});

function inTree(dir: string, sql: string): void {
  using db = new DatabaseSync(treeIn(dir));
  db.exec(sql);
}

/** A flipped bit can make text of the hashes of tiles, which the schema does not allow. */
function asText(dir: string, where: string): void {
  const changeSchema = (from: string, to: string): void => {
    using db = new DatabaseSync(treeIn(dir), { defensive: false });
    db.exec('PRAGMA writable_schema = ON');
    db.prepare("UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 'tiles'").run(from, to);
  };
  changeSchema('STRICT, ', '');
  inTree(dir, `UPDATE tiles SET hashes = CAST(hashes AS TEXT) WHERE ${where}`);
  changeSchema('WITHOUT', 'STRICT, WITHOUT');
}

const tilesIn = (dir: string) => {
  using db = new DatabaseSync(treeIn(dir), { readOnly: true });
  return db.prepare('SELECT level, number, hashes FROM tiles ORDER BY level, number').all();
};

/** Sets a byte of a tile to 0. */
const zeroAt = (level: number, number: number, at: number): string =>
  `UPDATE tiles SET hashes = CAST(substr(hashes, 1, ${at}) || x'00' || substr(hashes, ${at + 2}) AS BLOB)
   WHERE level = ${level} AND number = ${number}`;

function inLog(dir: string, sql: string): void {
  using db = new DatabaseSync(join(dir, 'log.db'));
  db.exec(`DROP TRIGGER events_are_never_updated; ${sql}`);
}
