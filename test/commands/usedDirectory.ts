import { cpSync } from 'node:fs';
import { beforeAll } from 'vitest';
import type { Plant } from '../support/service.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';
import { tempDir } from '../support/tempDir.ts';

/**
 * Stores plants with a server, once for the tests of a file, lists those of each user and stops it: gives the
 * data directory that it has left, and copies of it.
 */
export async function usedDirectory(
  garden: readonly (readonly [user: string, id: bigint | number, plant: Plant])[],
): Promise<{ original: string; copy: () => string }> {
  const service = await serviceOfFile();
  beforeAll(async () => {
    for (const [user, id, plant] of garden) {
      const { status } = await service.as(user).create(id, plant);
      if (status !== 200) throw new Error(`${plant.name} is answered with ${status}`);
    }
    for (const user of new Set(garden.map(([user]) => user))) await service.as(user).list(); // the view is as far
    await service.close();
  });
  return {
    original: service.dir,
    copy() {
      const dir = tempDir();
      cpSync(service.dir, dir, { recursive: true });
      return dir;
    },
  };
}
