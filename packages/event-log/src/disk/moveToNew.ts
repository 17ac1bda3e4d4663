import { closeSync, linkSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { fsyncPath } from './fsyncPath.ts';

/** Moves a file to a path that does not exist, durably. @throws Error; then nothing was created there */
export function moveToNew(draft: string, file: string): void {
  const isLinked = tryLink(draft, file);
  if (!isLinked) closeSync(openSync(file, 'wx')); // renaming alone could replace another file
  try {
    if (!isLinked) renameSync(draft, file);
    fsyncPath(dirname(file));
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  }
}

/** Whether a file could be linked: not every file system has hard links. @throws Error if the path exists */
function tryLink(draft: string, file: string): boolean {
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw error;
    return false;
  }
}
