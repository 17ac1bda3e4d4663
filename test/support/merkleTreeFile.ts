import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { vi } from 'vitest';

/** The position up to which the Merkle tree in a data directory is saved; -1 if its file is not complete yet. */
export function treePosition(dir: string): number {
  try {
    using db = new DatabaseSync(join(dir, 'merkleTree.db'), { readOnly: true, timeout: 60_000 });
    return (db.prepare('SELECT position FROM checkpoint').get() as { position: number }).position;
  } catch {
    return -1;
  }
}

/** Resolves when the Merkle tree of a running service is saved up to a position. */
export const treeSaved = (dir: string, position: number): Promise<void> =>
  vi.waitUntil(() => treePosition(dir) >= position, { timeout: 60_000 }).then(() => {});
