import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readViewCheckpoint } from '@event-sourced/event-log/disk';
import { readUnverifiedCheckpoint } from '@event-sourced/transparency-log';
import { merkleTreeFile, VIEWS } from '../projections/views.ts';

// A log that is gone is not a new one: an empty one in its place would empty the views, and give its positions again.

/** To be called where a log would begin. @throws Error for the operator if files in the data directory belong to a log */
export function assertNoFormerLog(dataDir: string, files = filesOfFormerLog(dataDir)): void {
  if (files.length === 0) return;
  throw new Error(
    `it has no events, but ${dataDir} has files of a log: ${files.join(', ')}; restore the log, or move these files away to begin with an empty one`,
  );
}

/** Each with what it says of the log. One that cannot be read was written for a log, too. */
export function filesOfFormerLog(dataDir: string): string[] {
  if (!existsSync(dataDir)) return [];
  const views = [...Object.values(VIEWS).map(({ file }) => file(dataDir)), merkleTreeFile(dataDir)];
  const signed = readdirSync(dataDir).filter((name) => /^checkpoint-[\da-f]{8}$/.test(name));
  return [
    ...views.map((file) => described(file, contentOfView)),
    ...signed.map((name) => described(join(dataDir, name), contentOfCheckpoint)),
  ].filter((text) => text !== undefined);
}

function described(file: string, content: (file: string) => string | undefined): string | undefined {
  try {
    const text = content(file);
    return text === undefined ? undefined : `${basename(file)} (${text})`;
  } catch (error) {
    return `${basename(file)} (cannot be read: ${(error as Error).message})`;
  }
}

function contentOfView(file: string): string | undefined {
  const checkpoint = readViewCheckpoint(file);
  return checkpoint && `log ${checkpoint.logId}, position ${checkpoint.position}`;
}

function contentOfCheckpoint(file: string): string | undefined {
  const { origin, size } = readUnverifiedCheckpoint(readFileSync(file, 'utf8'));
  return size === 0 ? undefined : `${size} events of ${origin}`;
}
