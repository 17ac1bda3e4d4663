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
 * Backs up the embedded log to a new file, or adds the missing events to an earlier backup, and prints the Merkle root,
 * which must match that of the log. @throws Error; then there is no new file, and an earlier backup is unchanged,
 * unless only printing the root failed
 */
export async function backupCommand(path: string, context: Context): Promise<void> {
  const file = resolve(path); // SQLite would read some names as a URI
  const { config, output, print, signal } = context;
  if (config.eventStoreDb) throw new Error('the log is in EventStoreDB; use its own backup.');
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
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
    // A directory, since the copying thread may still create files when a signal ends the command.
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

/** @throws Error that names the file; the file is unchanged */
function openEarlier(file: string, source: string): LogBackup {
  try {
    return new LogBackup(file, source);
  } catch (error) {
    throw new Error(`cannot continue ${file}: ${(error as Error).message}`, { cause: error });
  }
}

type Log = { log: EventLog; tree: TreeFile | undefined; signal: AbortSignal };

/** Commits the backup if its root matches the log. `proven` is the head of the earlier backup. @throws Error */
async function complete(backup: LogBackup, proven: BackupHead | undefined, log: Log): Promise<BackupHead> {
  const head = await readHead(backup, proven, log);
  if (head.root !== (await readRoot(log, head.size)))
    throw new Error('backup does not match the log; it may have been altered: run verify.');
  backup.commit(head);
  return head;
}

/** Reads all events of the backup; if the log's tree confirms `proven`, only the events after it. @throws Error */
async function readHead(
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

/** The root of the first `size` events of the log: from its tree, then from the events that the tree lacks. */
async function readRoot({ log, tree, signal }: Log, size: number): Promise<string> {
  const known = tree?.at(Math.min(size, tree.size)) ?? new MerkleTree();
  if (known.size < size) await appendLeaves(known, log, { after: tree?.position ?? START, size, signal });
  return known.root();
}
