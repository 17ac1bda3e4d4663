import { renameSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type EventLog, START } from '@event-sourced/event-log';
import { logFile, makeDraft, takeDraft } from '@event-sourced/event-log/disk';
import { assertReplaceable, copyLogFile, openLogReader } from '@event-sourced/event-log/sqlite';
import { fileIdentity, fsyncPath } from '@event-sourced/node/files';
import { EMPTY_TREE, formatTreeHead, MerkleTree, type TreeHead } from '@event-sourced/tlog';
import { appendEntries } from '@event-sourced/transparency-log/entries';
import { readSavedHead } from '@event-sourced/transparency-log/view';
import { VIEWS } from '../views.ts';
import { type Context, useLog, write } from './context.ts';

/**
 * Backs up the embedded log to a new file, which then replaces an earlier backup, and prints the Merkle root, which must
 * match that of the log. @throws Error; then the earlier backup is unchanged, unless only the sync of its directory or
 * printing the root failed
 */
export async function backupCommand(path: string, context: Context): Promise<void> {
  const { config, output, print, signal } = context;
  if (config.eventStoreDb) throw new Error('the log is in EventStoreDB; use its own backup.');
  const file = resolve(path); // SQLite would read some names as a URI
  const source = logFile(config.dataDir);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  await assertReplaceable(file, { source, log });
  // Before the copy, which then has every event of the saved tree.
  const saved = config.merkleTree
    ? await readSavedHead(VIEWS.merkleTree.file(config.dataDir), log)
    : EMPTY_TREE;
  // The draft is where it can be renamed: file systems have no renames to another one.
  const isInDataDir = fileIdentity(dirname(file)) === fileIdentity(config.dataDir);
  const { dir } = resources.use(isInDataDir ? makeDraft(config.dataDir) : takeDraft(`${file}.partial`));
  const draft = join(dir, 'copy.db');
  await copyLogFile(source, draft, signal);
  const backup = openLogReader(draft, { forHashing: true });
  resources.defer(() => backup.close());
  const head = await compare(backup, { log, saved, signal });
  await assertReplaceable(file, { source, log: backup }); // another backup may have been faster
  renameSync(draft, file);
  fsyncPath(dirname(file));
  print(`backed up ${head.size} events to ${file}`);
  await write(output, `${formatTreeHead(head)}\n`);
}

/** `saved`: the head of the log's saved tree. Events that this tree has are not read from the log again. */
type Source = { log: EventLog; saved: TreeHead; signal: AbortSignal };

/** The head of a backup. @throws Error if its root is not that of the log */
async function compare(backup: EventLog, { log, saved, signal }: Source): Promise<TreeHead> {
  const tree = new MerkleTree();
  const after = await appendEntries(tree, backup, { after: START, size: saved.size, signal });
  assertSameRoot(tree, saved.root);
  const treeOfLog = new MerkleTree(tree.size, tree.perfect);
  await appendEntries(tree, backup, { after, signal });
  await appendEntries(treeOfLog, log, { after, size: tree.size, signal });
  assertSameRoot(tree, treeOfLog.root());
  return { size: tree.size, root: tree.root() };
}

function assertSameRoot(copied: MerkleTree, root: string): void {
  if (copied.root() === root) return;
  throw new Error('backup does not match the log; one of them may have been altered: run verify.');
}
