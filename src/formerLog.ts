import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { START } from '@event-sourced/event-log';
import { readViewBookmark } from '@event-sourced/event-log/views';
import { readUnverifiedCheckpoint } from '@event-sourced/tlog';
import { viewFiles } from './views.ts';

// An empty log must not replace a lost one: it would empty the views and reuse positions.

const isCheckpoint = (file: string): boolean => /^checkpoint-[\da-f]{8}$/.test(basename(file));

/** Lists the views and signed checkpoints in a data directory, without opening them. */
export function filesBesideLog(dataDir: string): string[] {
  if (!existsSync(dataDir)) return [];
  const signed = readdirSync(dataDir)
    .filter(isCheckpoint)
    .map((name) => join(dataDir, name));
  return [...viewFiles(dataDir), ...signed].filter((file) =>
    statSync(file, { throwIfNoEntry: false })?.isFile(),
  );
}

/**
 * Call it when a log has no events, or does not exist. @throws Error for the operator if the data directory has a view or
 * a checkpoint of events
 */
export function assertNoFormerLog(dataDir: string, logExists: boolean): void {
  const found = filesBesideLog(dataDir).flatMap((file) => {
    const log = describeLog(file, logExists);
    return log === undefined ? [] : `${basename(file)} (${log})`;
  });
  if (found.length === 0) return;
  throw new Error(
    `it has no events, but ${dataDir} has files of a log: ${found.join(', ')}; restore the log, or move these files away to start an empty log`,
  );
}

/** Describes the log that a file belongs to; undefined if the file has no events. */
function describeLog(file: string, logExists: boolean): string | undefined {
  try {
    if (isCheckpoint(file)) {
      const { origin, size } = readUnverifiedCheckpoint(readFileSync(file, 'utf8'));
      return size > 0 ? `${size} events of ${origin}` : undefined;
    }
    const saved = readViewBookmark(file);
    return saved && saved.position > START ? `log ${saved.logId}, position ${saved.position}` : undefined;
  } catch (error) {
    // An unreadable file shows that there was a log. Beside a log, it may be of a first start that was interrupted.
    return logExists ? undefined : `cannot be read: ${(error as Error).message}`;
  }
}
