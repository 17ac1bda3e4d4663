import { cpSync } from 'node:fs';
import { beforeAll } from 'vitest';
import { treeSaved } from './merkleTreeFile.ts';
import { createPlants, type PlantOfUser } from './plants.ts';
import { serviceOfFile } from './service.ts';
import { tempDir } from './tempDir.ts';

/**
 * Creates plants with a server, once for the tests of a file, lists those of each user and stops it: returns
 * the data directory, and copies of it.
 */
export async function usedDirectory(
  plants: readonly PlantOfUser[],
): Promise<{ original: string; copy: () => string }> {
  const service = await serviceOfFile({ MERKLE_TREE: 'on' });
  beforeAll(async () => {
    await createPlants(service, plants);
    for (const user of new Set(plants.map(([user]) => user))) await service.as(user).list(); // the view has caught up
    await treeSaved(service.dir, plants.length);
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
