import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fsyncPath, lockDraft, unlockDraft } from '@event-sourced/event-log/disk';
import { copyDatabase } from '@event-sourced/event-log/sqlite';
import { VIEWS } from '../views.ts';
import type { Context } from './context.ts';

/**
 * Copies the views and the Merkle tree to a new directory. An instance with this DATA_DIR reads only the events after
 * them. @throws Error; then the directory does not exist
 */
export async function copyViewsCommand(path: string, { config, print, signal }: Context): Promise<void> {
  const dir = resolve(path); // SQLite would read some names as a URI
  if (existsSync(dir)) throw new Error(`${dir} already exists.`);
  const views = Object.values(VIEWS).filter(({ isOn }) => isOn(config));
  const files = views.map(({ file }) => file(config.dataDir));
  const draft = `${dir}.${randomUUID()}.partial`;
  mkdirSync(draft, { mode: 0o700 });
  const lock = lockDraft(draft);
  try {
    for (const file of files) {
      await copyDatabase(file, join(draft, basename(file)), signal).catch((cause: Error) => {
        throw new Error(`cannot copy ${file}: ${cause.message}`, { cause });
      });
      print(`copied ${file}`);
    }
    unlockDraft(draft, lock);
    fsyncPath(draft);
    renameSync(draft, dir);
    fsyncPath(dirname(dir));
  } finally {
    rmSync(draft, { recursive: true, force: true, maxRetries: 10 });
  }
}
