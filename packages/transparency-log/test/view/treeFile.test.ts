import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, expect, test } from 'vitest';
import { leafHash, MerkleTree } from '../../src/merkle/merkleTree.ts';
import { TileWriter } from '../../src/merkle/tileWriter.ts';
import { TreeFile } from '../../src/view/treeFile.ts';

const SIZE = 66_000;
const LOG_ID = 's1';
const leaf = (i: number): string => leafHash(`${i}`);

/** The file of a tree of the first leaves, at position SIZE. */
function saved(): string {
  const file = join(tempDir(afterAll), 'tree.db');
  using db = new DatabaseSync(file);
  db.exec(`
    CREATE TABLE checkpoint (log_id TEXT, position INTEGER, event_id TEXT);
    INSERT INTO checkpoint VALUES ('${LOG_ID}', ${SIZE}, 'last');
    CREATE TABLE tiles (level INTEGER, number INTEGER, hashes BLOB, starts_after INTEGER, PRIMARY KEY (level, number));
    BEGIN`);
  const insert = db.prepare('INSERT OR REPLACE INTO tiles VALUES (?, ?, ?, ?)');
  const tree = new TileWriter();
  for (let i = 0; i < SIZE; i++) tree.append(leaf(i), BigInt(i + 1));
  for (const { level, index, hashes, startsAfter } of tree.takeChanged())
    insert.run(level, index, hashes, startsAfter);
  db.exec('COMMIT');
  return file;
}

const file = saved();

test('a file has the tree of each number of its first events, which can grow', () => {
  using tree = TreeFile.open(file, LOG_ID) as TreeFile;
  expect([tree.size, tree.position]).toEqual([SIZE, BigInt(SIZE)]);
  const expected = new MerkleTree();
  const sizes = new Set([0, 1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, SIZE]);
  for (let size = 0; size <= SIZE; size++) {
    if (sizes.has(size)) {
      const found = tree.at(size);
      expect([size, found.root()]).toEqual([size, expected.root()]);
      const grown = new MerkleTree(size, expected.perfect);
      for (const one of [found, grown]) one.append(leaf(size));
      expect(found.root()).toBe(grown.root());
    }
    expected.append(leaf(size));
  }
});

test('a tree of another log, or without a file, is undefined; a missing tile is reported', () => {
  expect(TreeFile.open(file, 's2')).toBeUndefined();
  expect(TreeFile.open(`${file}.none`, LOG_ID)).toBeUndefined();
  using db = new DatabaseSync(file);
  db.exec('DELETE FROM tiles WHERE level = 0 AND number = 1');
  using tree = TreeFile.open(file, LOG_ID) as TreeFile;
  expect(() => tree.at(300)).toThrow('tile 1 of level 0 is missing');
});
