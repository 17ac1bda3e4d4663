import { closeSync, linkSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { fsyncPath } from './fsyncPath.ts';

/** Moves a file durably to a path that does not exist. @throws Error; then the path still does not exist */
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

/** Links a file; returns false if the file system has no hard links. @throws Error if the path exists */
function tryLink(draft: string, file: string): boolean {
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw error;
    return false;
  }
}
