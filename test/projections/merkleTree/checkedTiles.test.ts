import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { CheckedTiles } from '../../../projections/merkleTree/checkedTiles.ts';
import { LogTiles, type StoredTile } from '../../../projections/merkleTree/logTiles.ts';
import { MERKLE_TREE, openTree, rowOf, TilesDiffer } from '../../../projections/merkleTree/treeFile.ts';
import { openForWriting } from '../../../projections/viewDatabase.ts';
import { leafHash } from '../../../src/merkle/merkleTree.ts';
import { HASH_BYTES, rootOfTile, TILE_WIDTH } from '../../../src/merkle/tiles.ts';
import { tempDir } from '../../support/tempDir.ts';

/** A tree of three levels. The last tile of each is partial. */
const SIZE = TILE_WIDTH ** 2 + 3 * TILE_WIDTH + 5;

test('a tile is returned as it was hashed, or not at all, whatever is altered in the file', () => {
  const file = `${tempDir()}/merkleTree.db`;
  const tiles = new LogTiles();
  for (let i = 1; i <= SIZE; i++) tiles.append(leafHash(`${i}`), BigInt(i));
  const saved = { logId: 's1', position: BigInt(SIZE), size: SIZE, root: tiles.root() };
  const stored = tiles.takeChanged();
  const db = openForWriting(file, MERKLE_TREE);
  onTestFinished(() => db.close());
  const insert = MERKLE_TREE.insert(db);
  db.exec('BEGIN');
  insert(stored.map(rowOf));
  db.exec('COMMIT');
  const reader = openTree(file);
  onTestFinished(() => reader.db.close());
  const read = () => new CheckedTiles(reader.statements, saved);

  const all = read();
  for (const { level, index, width, hashes } of stored) {
    expect(all.get({ level, index, width })).toEqual(hashes);
    expect(all.get({ level, index, width: 1 })).toEqual(hashes.subarray(0, HASH_BYTES));
    if (width < TILE_WIDTH) expect(all.get({ level, index, width: width + 1 })).toBeUndefined();
  }
  expect(all.get({ level: 0, index: 10 ** 12, width: 1 })).toBeUndefined();
  expect(all.get({ level: 63, index: 0, width: 1 })).toBeUndefined();

  const store = (tile: StoredTile, hashes = tile.hashes) => insert([rowOf({ ...tile, hashes })]);
  const above = ({ level, index, width }: StoredTile) =>
    width < TILE_WIDTH
      ? undefined
      : stored.find((tile) => tile.level === level + 1 && tile.index === Math.floor(index / TILE_WIDTH));
  const some = stored.flatMap(({ level, index }, i) => (level > 0 || index % 64 < 2 ? [i] : []));
  const change = fc.record({ at: fc.nat(), mask: fc.integer({ min: 1, max: 255 }) });
  fc.assert(
    fc.property(fc.constantFrom(...some), change, fc.boolean(), (i, { at, mask }, isConsistent) => {
      const tile = stored[i] as StoredTile;
      const { level, index, width, hashes } = tile;
      let altered = Buffer.from(hashes);
      altered[at % altered.length] = (altered[at % altered.length] as number) ^ mask;
      store(tile, altered);
      for (let [below, next] = [tile, above(tile)]; isConsistent && next; ) {
        const root = rootOfTile(altered);
        altered = Buffer.from(next.hashes);
        altered.write(root, (below.index % TILE_WIDTH) * HASH_BYTES, 'hex');
        store(next, altered);
        [below, next] = [next, above(next)];
      }
      expect(() => read().get({ level, index, width })).toThrow(TilesDiffer);
      for (let each: StoredTile | undefined = tile; each; each = above(each)) store(each);
      expect(read().get({ level, index, width })).toEqual(hashes);
    }),
  );
});
