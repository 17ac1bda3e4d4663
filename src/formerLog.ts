import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readViewCheckpoint } from '@event-sourced/event-log/views';
import { readUnverifiedCheckpoint } from '@event-sourced/transparency-log';
import { merkleTreeFile } from '@event-sourced/transparency-log/view';
import { VIEWS } from '../projections/views.ts';

// An empty log must not replace a lost one: it would empty the views and reuse positions.

const isCheckpoint = (file: string): boolean => /^checkpoint-[\da-f]{8}$/.test(basename(file));

/** Lists the views and signed checkpoints in a data directory, without opening them. */
export function filesBesideLog(dataDir: string): string[] {
  if (!existsSync(dataDir)) return [];
  const views = [...Object.values(VIEWS).map(({ file }) => file(dataDir)), merkleTreeFile(dataDir)];
  const signed = readdirSync(dataDir)
    .filter(isCheckpoint)
    .map((name) => join(dataDir, name));
  return [...views, ...signed].filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
}

/**
 * Call it when a log has no events; `logId` is its ID if it exists already. @throws Error for the operator if the data
 * directory has a view or a checkpoint of another log
 */
export function assertNoFormerLog(dataDir: string, logId?: string): void {
  const found = filesBesideLog(dataDir).flatMap((file) => {
    const log = describeLog(file, logId);
    return log === undefined ? [] : `${basename(file)} (${log})`;
  });
  if (found.length === 0) return;
  throw new Error(
    `it has no events, but ${dataDir} has files of a log: ${found.join(', ')}; restore the log, or move these files away to start an empty log`,
  );
}

/** Describes the log that a file belongs to; undefined if the file belongs to no log, or to the log with this ID. */
function describeLog(file: string, logId: string | undefined): string | undefined {
  try {
    if (!isCheckpoint(file)) {
      const saved = readViewCheckpoint(file);
      return saved && saved.logId !== logId ? `log ${saved.logId}, position ${saved.position}` : undefined;
    }
    if (logId !== undefined) return undefined; // a checkpoint has no log ID: the log may be an early backup of its log
    const { origin, size } = readUnverifiedCheckpoint(readFileSync(file, 'utf8'));
    return size > 0 ? `${size} events of ${origin}` : undefined;
  } catch (error) {
    // An unreadable view shows that there was a log. If the log exists, the view will be rebuilt.
    return logId === undefined ? `cannot be read: ${(error as Error).message}` : undefined;
  }
}
