import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { rootOfLog } from '../audit/proof.ts';
import { copyLogFile } from '../eventStore/sqliteBackup.ts';
import { openSqliteLog } from '../eventStore/sqliteReading.ts';
import { fsyncPath } from '../fsyncPath.ts';
import { logFile } from '../openStore.ts';
import { openLogUntil, type Surroundings, write } from './surroundings.ts';

/** Copies the embedded log to a new file, compares both, and prints what they hash to. @throws Error; then there is no file */
export async function backupCommand(path: string, surroundings: Surroundings): Promise<void> {
  const file = resolve(path); // SQLite would read some names as a URI
  const { config, output, say, signal } = surroundings;
  if (config.eventStoreDb) throw new Error('the log is in EventStoreDB, which has backups of its own.');
  if (existsSync(file)) throw new Error(`${file} is there already.`);
  await using open = new AsyncDisposableStack();
  const log = await openLogUntil(open, surroundings, { exact: true });
  const draft = `${file}.${randomUUID()}.partial`;
  const remove = (): void => {
    for (const part of [draft, `${draft}-wal`, `${draft}-shm`, `${draft}-journal`])
      rmSync(part, { force: true });
  };
  open.defer(remove);
  await copyLogFile(logFile(config.dataDir), draft, signal);

  const copy = openSqliteLog(draft, { exact: true });
  open.defer(() => copy.close());
  const { size, root } = await rootOfLog(copy, signal);
  if ((await rootOfLog(log, signal, size)).root !== root) throw new Error('the copy is not like the log.');
  closeSync(openSync(file, 'wx')); // a renaming alone could take the place of another file
  renameSync(draft, file);
  fsyncPath(dirname(file));
  say(`${file} holds the log: ${size} events`);
  await write(output, `${size}:${root}\n`);
}
