import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readViewCheckpoint } from '@event-sourced/event-log/views';
import { readUnverifiedCheckpoint } from '@event-sourced/transparency-log';
import { merkleTreeFile } from '@event-sourced/transparency-log/view';
import { VIEWS } from '../projections/views.ts';

// A log that is gone is not a new one: an empty one in its place would empty the views, and give its positions again.

const isCheckpoint = (file: string): boolean => /^checkpoint-[\da-f]{8}$/.test(basename(file));

/** Views and signed checkpoints in a data directory. They are not opened. */
export function filesBesideLog(dataDir: string): string[] {
  if (!existsSync(dataDir)) return [];
  const views = [...Object.values(VIEWS).map(({ file }) => file(dataDir)), merkleTreeFile(dataDir)];
  const signed = readdirSync(dataDir)
    .filter(isCheckpoint)
    .map((name) => join(dataDir, name));
  return [...views, ...signed].filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
}

/**
 * To be called when a log has no events. @throws Error for the operator if a view or a checkpoint is of a log: of another
 * one than that with this ID, if it exists already
 */
export function assertNoFormerLog(dataDir: string, logId?: string): void {
  const found = filesBesideLog(dataDir).flatMap((file) => {
    const log = describeLog(file, logId);
    return log === undefined ? [] : `${basename(file)} (${log})`;
  });
  if (found.length === 0) return;
  throw new Error(
    `it has no events, but ${dataDir} has files of a log: ${found.join(', ')}; restore the log, or move these files away to begin with an empty one`,
  );
}

/** The log that a file belongs to; undefined if to none, or to that with this ID. */
function describeLog(file: string, logId: string | undefined): string | undefined {
  try {
    if (!isCheckpoint(file)) {
      const saved = readViewCheckpoint(file);
      return saved && saved.logId !== logId ? `log ${saved.logId}, position ${saved.position}` : undefined;
    }
    if (logId !== undefined) return undefined; // a checkpoint has no log ID: this may be its log, from an early backup
    const { origin, size } = readUnverifiedCheckpoint(readFileSync(file, 'utf8'));
    return size > 0 ? `${size} events of ${origin}` : undefined;
  } catch (error) {
    // It was written for a log; if there is one, it will be rebuilt.
    return logId === undefined ? `cannot be read: ${(error as Error).message}` : undefined;
  }
}
