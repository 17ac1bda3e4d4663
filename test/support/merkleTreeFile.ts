import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, vi } from 'vitest';

/** Resolves when the Merkle tree of a running service is saved up to a position. */
export const treeSaved = (dir: string, position: number): Promise<void> =>
  vi.waitFor(() => expect(savedPosition(dir)).toBeGreaterThanOrEqual(position), { timeout: 300_000 });

/** Throws until the file is complete. */
function savedPosition(dir: string): number {
  using db = new DatabaseSync(join(dir, 'merkleTree.db'), { readOnly: true, timeout: 60_000 });
  return (db.prepare('SELECT position FROM bookmark').get() as { position: number }).position;
}
