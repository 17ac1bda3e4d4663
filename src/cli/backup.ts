import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { logFile, moveToNew } from '@event-sourced/event-log/disk';
import { copyDatabase, openLogReader } from '@event-sourced/event-log/sqlite';
import { formatTreeHead } from '@event-sourced/transparency-log';
import { rootOfLog } from '@event-sourced/transparency-log/entries';
import { type Context, useLog, write } from './context.ts';

/**
 * Copies the embedded log to a new file, compares both, and prints the root. @throws Error; then there is no
 * file, unless only the root could not be printed
 */
export async function backupCommand(path: string, context: Context): Promise<void> {
  const file = resolve(path); // SQLite would read some names as a URI
  const { config, output, print, signal } = context;
  if (config.eventStoreDb) throw new Error('the log is in EventStoreDB; use its own backup.');
  if (existsSync(file)) throw new Error(`${file} already exists.`);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { raw: true });
  // In a directory, since the thread that copies may still create files when a signal ends the command.
  const drafts = `${file}.${randomUUID()}.partial`;
  const draft = join(drafts, basename(file));
  mkdirSync(drafts, { mode: 0o700 });
  resources.defer(() => rmSync(drafts, { recursive: true, maxRetries: 10 }));
  await copyDatabase(logFile(config.dataDir), draft, signal);

  const copy = openLogReader(draft, { raw: true });
  resources.defer(() => copy.close());
  const { size, root } = await rootOfLog(copy, signal);
  if ((await rootOfLog(log, signal, size)).root !== root) throw new Error('backup does not match the log.');
  moveToNew(draft, file);
  print(`backed up ${size} events to ${file}`);
  await write(output, `${formatTreeHead({ size, root })}\n`);
}
