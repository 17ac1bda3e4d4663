import { cpSync } from 'node:fs';
import { beforeAll } from 'vitest';
import type { Plant } from './service.ts';
import { serviceOfFile } from './serviceOfFile.ts';
import { tempDir } from './tempDir.ts';

/**
 * Creates plants with a server, once for the tests of a file, lists those of each user and stops it: returns
 * the data directory, and copies of it.
 */
export async function usedDirectory(
  plants: readonly (readonly [user: string, id: bigint | number, plant: Plant])[],
): Promise<{ original: string; copy: () => string }> {
  const service = await serviceOfFile();
  beforeAll(async () => {
    for (const [user, id, plant] of plants) {
      const { status } = await service.as(user).create(id, plant);
      if (status !== 200) throw new Error(`${plant.name} returned ${status}`);
    }
    for (const user of new Set(plants.map(([user]) => user))) await service.as(user).list(); // the view has caught up
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
