import { randomUUID } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, realpathSync, rmSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { type EventLog, START } from '@event-sourced/event-log';
import { lockDraft, logFile, moveToNew } from '@event-sourced/event-log/disk';
import { copyDatabase, LogBackup } from '@event-sourced/event-log/sqlite';
import { EMPTY_TREE, formatTreeHead, MerkleTree, type TreeHead } from '@event-sourced/transparency-log';
import { appendEntries } from '@event-sourced/transparency-log/entries';
import { readSavedHead } from '@event-sourced/transparency-log/view';
import { VIEWS } from '../views.ts';
import { type Context, useLog, write } from './context.ts';

/**
 * Backs up the embedded log to a new file, or adds the missing events to an earlier backup, and prints the Merkle root,
 * which must match that of the log. @throws Error; then there is no new file, and an earlier backup is unchanged,
 * unless only printing the root failed
 */
export async function backupCommand(path: string, context: Context): Promise<void> {
  // SQLite would read some names as a URI, and keeps a write-ahead log beside the target of a link.
  const file = existsSync(path) ? realpathSync(path) : resolve(path);
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink())
    throw new Error(`cannot back up to ${path}: the target of the link does not exist.`);
  const { config, output, print, signal } = context;
  if (config.eventStoreDb) throw new Error('the log is in EventStoreDB; use its own backup.');
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  // Before the copy, which then has every event of the saved tree.
  const saved = config.merkleTree
    ? await readSavedHead(VIEWS.merkleTree.file(config.dataDir), log)
    : EMPTY_TREE;
  const source = logFile(config.dataDir);
  let head: TreeHead;
  if (existsSync(file)) {
    using backup = openEarlier(file, source);
    await backup.append(signal);
    head = await complete(backup, { log, saved, signal });
  } else {
    // A directory, since the copying thread may still create files when a signal ends the command.
    const drafts = `${file}.${randomUUID()}.partial`;
    const draft = join(drafts, basename(file));
    mkdirSync(drafts, { mode: 0o700 });
    resources.defer(() => rmSync(drafts, { recursive: true, maxRetries: 10 }));
    resources.use(lockDraft(drafts));
    await copyDatabase(source, draft, signal, { isChecked: false });
    {
      using backup = new LogBackup(draft, source);
      head = await complete(backup, { log, saved, signal });
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

/** `saved`: the head of the log's saved tree. Events that this tree has are not read from the log again. */
type Source = { log: EventLog; saved: TreeHead; signal: AbortSignal };

/** Commits the backup if its root, over all of its events, is the root of the log. @throws Error */
async function complete(backup: LogBackup, { log, saved, signal }: Source): Promise<TreeHead> {
  const tree = new MerkleTree();
  const after = await appendEntries(tree, backup.events, { after: START, size: saved.size, signal });
  assertSameRoot(tree, saved.root);
  const treeOfLog = new MerkleTree(tree.size, tree.perfect);
  await appendEntries(tree, backup.events, { after, signal });
  await appendEntries(treeOfLog, log, { after, size: tree.size, signal });
  assertSameRoot(tree, treeOfLog.root());
  backup.commit();
  return { size: tree.size, root: tree.root() };
}

function assertSameRoot(copied: MerkleTree, root: string): void {
  if (copied.root() === root) return;
  throw new Error('backup does not match the log; one of them may have been altered: run verify.');
}
