import { cpSync } from 'node:fs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { treeSaved } from './merkleTreeFile.ts';
import { createPlants, type PlantOfUser } from './plants.ts';
import { serviceOfFile } from './service.ts';

/** A data directory in which a server has created plants, for the tests of a file, and copies of it. */
export async function usedDirectory(plants: readonly PlantOfUser[]) {
  const { as, dir: original, close } = await serviceOfFile({ MERKLE_TREE: 'on' });
  await createPlants({ as }, plants);
  for (const user of new Set(plants.map(([user]) => user))) await as(user).list(); // the view has caught up
  await treeSaved(original, plants.length);
  await close();
  const copy = (): string => {
    const dir = tempDir();
    cpSync(original, dir, { recursive: true });
    return dir;
  };
  return { original, copy };
}
