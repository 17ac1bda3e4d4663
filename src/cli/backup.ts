import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { type EventLog, START } from '@event-sourced/event-log';
import { logFile, moveToNew } from '@event-sourced/event-log/disk';
import { type BackupHead, copyDatabase, LogBackup } from '@event-sourced/event-log/sqlite';
import { formatTreeHead, MerkleTree } from '@event-sourced/transparency-log';
import { appendLeaves } from '@event-sourced/transparency-log/entries';
import { merkleTreeFile, TreeFile } from '@event-sourced/transparency-log/view';
import { type Context, useLog, write } from './context.ts';

/**
 * Copies the embedded log to a new file, or what an earlier backup lacks to that, compares its root with that of the log,
 * and prints it. @throws Error; then there is no file, or the earlier backup, unless only the root could not be printed
 */
export async function backupCommand(path: string, context: Context): Promise<void> {
  const file = resolve(path); // SQLite would read some names as a URI
  const { config, output, print, signal } = context;
  if (config.eventStoreDb) throw new Error('the log is in EventStoreDB; use its own backup.');
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { raw: true });
  const tree = config.merkleTree
    ? TreeFile.open(merkleTreeFile(config.dataDir), await log.logId())
    : undefined;
  if (tree) resources.use(tree);
  const source = logFile(config.dataDir);
  let head: BackupHead;
  if (existsSync(file)) {
    using backup = openEarlier(file, source);
    await backup.append(signal);
    head = await complete(backup, backup.head, { log, tree, signal });
  } else {
    // In a directory, since the thread that copies may still create files when a signal ends the command.
    const drafts = `${file}.${randomUUID()}.partial`;
    const draft = join(drafts, basename(file));
    mkdirSync(drafts, { mode: 0o700 });
    resources.defer(() => rmSync(drafts, { recursive: true, maxRetries: 10 }));
    await copyDatabase(source, draft, signal, { isChecked: false });
    {
      using backup = new LogBackup(draft, source);
      head = await complete(backup, undefined, { log, tree, signal });
    }
    moveToNew(draft, file);
  }
  print(`backed up ${head.size} events to ${file}`);
  await write(output, `${formatTreeHead(head)}\n`);
}

/** @throws Error with the name of the file, which is not changed */
function openEarlier(file: string, source: string): LogBackup {
  try {
    return new LogBackup(file, source);
  } catch (error) {
    throw new Error(`cannot continue ${file}: ${(error as Error).message}`, { cause: error });
  }
}

type Log = { log: EventLog; tree: TreeFile | undefined; signal: AbortSignal };

/** Commits the backup, of which an earlier one is proven, if it has the root of the log. @throws Error */
async function complete(backup: LogBackup, proven: BackupHead | undefined, log: Log): Promise<BackupHead> {
  const head = await headOf(backup, proven, log);
  if (head.root !== (await rootOf(log, head.size)))
    throw new Error('backup does not match the log; it may have been altered: run verify.');
  backup.commit(head);
  return head;
}

/** Reads all events but those that are proven, if they are the beginning of the log by its tree. @throws Error */
async function headOf(
  { events }: LogBackup,
  proven: BackupHead | undefined,
  { tree, signal }: Log,
): Promise<BackupHead> {
  const known = proven && tree && proven.size <= tree.size ? tree.at(proven.size) : undefined;
  if (known && known.root() !== proven?.root)
    throw new Error(`the log does not begin with the ${known.size} events of the backup: run verify.`);
  const copied = known ?? new MerkleTree();
  const position = await appendLeaves(copied, events, {
    after: (known && proven?.position) ?? START,
    signal,
  });
  return { size: copied.size, root: copied.root(), position };
}

/** By the tree, as far as its file has the events, and then by the log. */
async function rootOf({ log, tree, signal }: Log, size: number): Promise<string> {
  const known = tree?.at(Math.min(size, tree.size)) ?? new MerkleTree();
  if (known.size < size) await appendLeaves(known, log, { after: tree?.position ?? START, size, signal });
  return known.root();
}
