import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { appendTo, logWith } from '../../../../test/support/logs.ts';
import { tempDir } from '../../../../test/support/tempDir.ts';
import { logIn, rootOf, treeIn } from '../../../../test/support/treeThread.ts';
import { openLogReader } from '../../../event-log/src/sqlite/read.ts';
import { everything } from '../../../event-log/src/testing/contract.ts';
import { Follower } from '../../../event-log/src/views/follow.ts';
import { MerkleTreeView, type SavedTree } from '../../src/view/treeView.ts';

/** Three full tiles of level 0, and a partial one. */
const EVENTS = 3 * 256 + 20;

/** Follows the log in a directory to its end, and closes the view. Returns what it has saved, in order. */
async function follow(dir: string): Promise<{ saved: SavedTree[]; logged: string }> {
  const log = openLogReader(join(dir, 'log.db'), { raw: true });
  const view = await MerkleTreeView.open(treeIn(dir));
  const saved: SavedTree[] = [];
  view.onSaved = () => void saved.push(view.saved);
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const follower = new Follower({ store: log, view, skip: new Set(), logger });
  await follower.reached(await log.lastPosition());
  await follower.stop();
  await view.close();
  await log.close();
  return { saved: saved.length === 0 ? [view.saved] : saved, logged: lines.join('') };
}

/** The log with its tree, and its root. */
const original = { dir: '', root: '' };

beforeAll(async () => {
  original.dir = logWith({ events: EVENTS, dir: mkdtempSync(join(tmpdir(), 'plant-store-')) });
  const { saved } = await follow(original.dir);
  original.root = saved.at(-1)?.root as string;
});

afterAll(() => rmSync(original.dir, { recursive: true }));

/** A copy of the log with its tree. */
function copy(): string {
  const dir = tempDir();
  cpSync(original.dir, dir, { recursive: true });
  return dir;
}

const complete = () => ({ size: EVENTS, position: BigInt(EVENTS), root: original.root });

describe('the Merkle tree of a log', () => {
  test.for([0, 256, 257])('of %i events has the root of RFC 9162', async (events) => {
    const dir = logWith({ events });
    const { saved } = await follow(dir);
    expect(saved.at(-1)).toMatchObject({ size: events, root: await rootOf(logIn(dir), events) });
  });

  test('has all events as leaves, also of other types, larger ones, and those that are not canonical', async () => {
    const dir = appendTo(
      tempDir(),
      { stream: 'plant-a/1', id: '1', type: 'PlantRemoved', data: {} },
      { stream: 'plant-a/2', id: '2', data: '{ "not":  "canonical" }' },
      { stream: 'plant-a/3', id: '3', data: { large: 'x'.repeat(70_000) } },
      { stream: 'plant-a/4', id: '4', data: 'no JSON', metadata: '\\ud800' },
    );
    const { saved } = await follow(dir);
    expect(saved.at(-1)).toMatchObject({ size: 4, root: await rootOf(logIn(dir), 4) });
  });

  test('is resumed at its checkpoint, and grows with the log', async () => {
    const dir = copy();
    expect((await follow(dir)).saved).toMatchObject([complete()]);
    logWith({ dir, events: 300, after: EVENTS });
    const { saved, logged } = await follow(dir);
    const size = EVENTS + 300;
    expect(saved).toMatchObject([{ size, root: await rootOf(logIn(dir), size) }]);
    expect(logged).not.toContain('rebuilding');
  });

  test.for<[what: string, (dir: string) => void]>([
    ['missing', (dir) => rmSync(treeIn(dir))],
    ['truncated', (dir) => writeFileSync(treeIn(dir), readFileSync(treeIn(dir)).subarray(0, 20_000))],
    ['of another version', (dir) => inTree(dir, 'PRAGMA user_version = 99')],
    ['of another log', (dir) => inTree(dir, "UPDATE checkpoint SET log_id = 's1'")],
    ['ahead of the log', (dir) => inTree(dir, 'UPDATE checkpoint SET position = 9999')],
    ['without its last tile', (dir) => inTree(dir, 'DELETE FROM tiles WHERE level = 0 AND number = 3')],
    ['with a level too many', (dir) => inTree(dir, 'INSERT INTO tiles VALUES (7, 0, zeroblob(32), NULL)')],
    ['with an altered leaf', (dir) => inTree(dir, zeroAt(0, 1, 100))],
    ['with an altered hash of level 1', (dir) => inTree(dir, zeroAt(1, 0, 64))],
    ['with text instead of hashes', (dir) => asText(dir, 'level = 0 AND number = 3')],
    ['with text instead of hashes of level 1', (dir) => asText(dir, 'level = 1')],
    [
      'with tiles in another order',
      (dir) => inTree(dir, 'UPDATE tiles SET starts_after = 700 - starts_after'),
    ],
    [
      'with consistent leaves that are not those of the log',
      (dir) =>
        inTree(dir, 'UPDATE tiles SET hashes = CAST(zeroblob(length(hashes)) AS BLOB) WHERE number = 3'),
    ],
  ])('is rebuilt if its file is %s', async ([, damage]) => {
    const dir = copy();
    damage(dir);
    const { saved } = await follow(dir);
    expect(saved.at(-1)).toMatchObject(complete());
    expect(tilesIn(dir)).toEqual(tilesIn(original.dir));
    expect((await follow(dir)).saved).toMatchObject([complete()]);
  });

  test('never has a root that the log does not have, whichever bytes of its file are changed', async () => {
    const bytes = readFileSync(treeIn(original.dir));
    const dir = copy();
    const roots = new Map<number, string>();
    const log = logIn(dir);
    // Bytes of the file, and as often those of level 1, which are few.
    const start = bytes.indexOf(Buffer.from(tilesIn(original.dir).at(-1)?.hashes as Uint8Array));
    const at = fc.oneof(fc.nat(bytes.length - 1), fc.integer({ min: start, max: start + 95 }));
    const change = fc.record({ at, mask: fc.integer({ min: 1, max: 255 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
        const changed = Buffer.from(bytes);
        for (const { at, mask } of changes) changed[at] = (changed[at] as number) ^ mask;
        writeFileSync(treeIn(dir), changed);
        const { saved } = await follow(dir);
        expect(saved.at(-1)).toMatchObject(complete());
        expect(tilesIn(dir)).toEqual(tilesIn(original.dir));
        for (const { size, root } of saved) {
          if (!roots.has(size)) roots.set(size, await rootOf(log, size));
          expect(root).toBe(roots.get(size));
        }
      }),
      { numRuns: 15 },
    );
  });

  test('is rebuilt if the log is replaced by an older backup that has grown differently', async () => {
    const dir = tempDir();
    logWith({ dir, events: 300 });
    copyFileSync(join(dir, 'log.db'), join(dir, 'backup.db'));
    logWith({ dir, events: 300, after: 300 });
    await follow(dir);
    copyFileSync(join(dir, 'backup.db'), join(dir, 'log.db'));
    logWith({ dir, events: 400, after: 300, name: "'other ' || id", user: "'carol'" });
    inLog(dir, `UPDATE events SET id = id || 'x' WHERE position > 300`);
    const { saved, logged } = await follow(dir);
    expect(saved.at(-1)).toMatchObject({ size: 700, root: await rootOf(logIn(dir), 700) });
    expect(logged).toContain('the log has lost events, as after a restore');
  });

  test('that does not match the log is kept as a copy, which replaces an older one', async () => {
    const dir = copy();
    const kept = `${treeIn(dir)}.mismatch`;
    writeFileSync(kept, 'an older copy');
    inLog(dir, `UPDATE events SET data = '{}' WHERE position = ${EVENTS - 5}`);
    const { logged } = await follow(dir);
    expect(JSON.parse(logged.split('\n')[0] as string)).toMatchObject({ msg: 'rebuilding view', copy: kept });
    copyFileSync(kept, treeIn(dir));
    expect(tilesIn(dir)).toEqual(tilesIn(original.dir));
  });

  test('is not read any more before it is reset, and keeps its leaves if that fails', async () => {
    const dir = copy();
    const view = await MerkleTreeView.open(treeIn(dir));
    const calls: string[] = [];
    view.onReset = () => void calls.push('reset');
    view.onSaved = () => void calls.push(`saved ${view.saved.size}`);
    const other = new DatabaseSync(treeIn(dir));
    other.exec('BEGIN IMMEDIATE'); // simulates a full or failing disk
    await expect(view.reset('other')).rejects.toThrow('locked');
    expect(calls).toEqual(['reset']);
    expect(view.applied.position).toBe(BigInt(EVENTS));
    other.exec('ROLLBACK');
    other.close();
    await view.reset('other');
    expect(calls).toEqual(['reset', 'reset', 'saved 0']);
    expect(view.applied).toEqual({ logId: 'other', position: 0n, eventId: '' });
    await view.close();
  });

  test('whose file was deleted or replaced is discarded when it is saved', async () => {
    for (const replace of [() => {}, (file: string) => cpSync(treeIn(original.dir), file)]) {
      const dir = copy();
      logWith({ dir, events: 1, after: EVENTS });
      const view = await MerkleTreeView.open(treeIn(dir));
      const damaged = vi.fn();
      view.onDamage = damaged;
      rmSync(treeIn(dir));
      replace(treeIn(dir));
      view.apply((await everything(logIn(dir))).slice(EVENTS));
      await expect(view.save()).rejects.toThrow(/was damaged and is being rebuilt/);
      expect(damaged).toHaveBeenCalledOnce();
      expect(view.replaced).toBe('its file was deleted or replaced while the service was running');
      expect(view.applied.eventId).toBe('');
      await view.close();
    }
  });

  test('that cannot be saved is saved later, with all leaves', async () => {
    const dir = copy();
    logWith({ dir, events: 600, after: EVENTS });
    const log = logIn(dir);
    const view = await MerkleTreeView.open(treeIn(dir));
    const added = (await everything(log)).slice(EVENTS);
    const other = new DatabaseSync(treeIn(dir));
    other.exec('BEGIN IMMEDIATE'); // simulates a full or failing disk
    view.apply(added.slice(0, 200));
    await expect(view.save()).rejects.toThrow('locked');
    view.apply(added.slice(200));
    expect(view.saved).toMatchObject(complete());
    other.exec('ROLLBACK');
    other.close();
    await view.save();
    await view.close();
    const size = EVENTS + 600;
    expect((await follow(dir)).saved).toMatchObject([{ size, root: await rootOf(log, size) }]);
  });
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
