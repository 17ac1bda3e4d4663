import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readViewCheckpoint } from '@event-sourced/event-log/disk';
import { readUnverifiedCheckpoint } from '@event-sourced/transparency-log';
import { merkleTreeFile, VIEWS } from '../projections/views.ts';

// A log that is gone is not a new one: an empty one in its place would empty the views, and give its positions again.

/** To be called when a log has no events. @throws Error for the operator if files in the data directory belong to a log */
export function assertNoFormerLog(dataDir: string, files = filesOfFormerLog(dataDir)): void {
  if (files.length === 0) return;
  throw new Error(
    `it has no events, but ${dataDir} has files of a log: ${files.join(', ')}; restore the log, or move these files away to begin with an empty one`,
  );
}

/**
 * Each with what it says of the log, which is another one than that with this ID. A file that cannot be read was written for
 * a log, too, unless there is one already.
 */
export function filesOfFormerLog(dataDir: string, logId?: string): string[] {
  if (!existsSync(dataDir)) return [];
  const views = [...Object.values(VIEWS).map(({ file }) => file(dataDir)), merkleTreeFile(dataDir)];
  // Checkpoints have no log ID: a log that exists may be theirs, restored from an early backup.
  const signed = logId ? [] : readdirSync(dataDir).filter((name) => /^checkpoint-[\da-f]{8}$/.test(name));
  const texts = (names: string[], content: (file: string) => string | undefined): string[] =>
    names.flatMap((file) => {
      try {
        const text = content(file);
        return text === undefined ? [] : `${basename(file)} (${text})`;
      } catch (error) {
        return logId ? [] : `${basename(file)} (cannot be read: ${(error as Error).message})`;
      }
    });
  return [
    ...texts(views, (file) => {
      const saved = readViewCheckpoint(file);
      return saved && saved.logId !== logId ? `log ${saved.logId}, position ${saved.position}` : undefined;
    }),
    ...texts(signed, (name) => {
      const { origin, size } = readUnverifiedCheckpoint(readFileSync(join(dataDir, name), 'utf8'));
      return size > 0 ? `${size} events of ${origin}` : undefined;
    }),
  ];
}
