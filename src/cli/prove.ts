import { existsSync } from 'node:fs';
import { type Checkpoint, proveConsistency } from '@event-sourced/tlog';
import { issueReceipt } from '@event-sourced/transparency-log/entries';
import { readCheckpointFile } from '@event-sourced/transparency-log/files';
import { assertExtends, CheckpointFiles, loadExistingLogKey } from '@event-sourced/transparency-log/signer';
import { SavedTree } from '@event-sourced/transparency-log/view';
import { plantStream } from '../plants/stream.ts';
import { VIEWS } from '../views.ts';
import { openOwnCheckpoint } from './checkpointFile.ts';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = { user?: string; id?: string; from?: string };

/**
 * Prints a proof that the last signed checkpoint has a plant, or that its log begins with the first `from` events. Signs
 * nothing. @throws Error for the operator
 */
export async function proveCommand(options: Options, context: Context): Promise<void> {
  const { config, output } = context;
  if (!config.merkleTree) throw new Error('requires the Merkle tree: MERKLE_TREE is off.');
  const { user, id, from } = options;
  const isReceipt = user !== undefined && id !== undefined && from === undefined;
  if (!isReceipt && (from === undefined || user !== undefined || id !== undefined))
    throw new Error('requires either --user and --id, or --from.');
  const files = new CheckpointFiles(loadExistingLogKey(config).verifierKey, config.dataDir);
  const signed = await files.readSigned();
  const treeFile = VIEWS.merkleTree.file(config.dataDir);
  if (!signed || !existsSync(treeFile)) throw new Error('no checkpoint is signed yet: start the service.');
  using tree = new SavedTree(treeFile);
  if (tree.head.size < signed.size)
    throw new Error('the saved Merkle tree is behind the last checkpoint: start the service.');
  await assertExtends(signed, tree.head, tree.readTile);
  if (isReceipt)
    return write(
      output,
      await receipt(user, id, { tree, signed, cosigned: await files.readCosigned() }, context),
    );
  const size = await parseSize(from as string, context);
  if (size < 1 || size > signed.size)
    throw new Error(`--from must be from 1 to ${signed.size}, the size of the last checkpoint.`);
  await write(output, await proveConsistency(size, signed, tree.readTile));
}

type Proven = { tree: SavedTree; signed: Checkpoint; cosigned: Checkpoint | undefined };

async function receipt(
  user: string,
  id: string,
  { tree, signed, cosigned }: Proven,
  context: Context,
): Promise<string> {
  parseEventOptions({ user, id });
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  const [event] = await log.readStream(plantStream(user, id), 1);
  if (event?.revision !== 0n) throw new Error(`${JSON.stringify(user)} has no plant ${id}`);
  const tooEarly = () =>
    new Error(`the last checkpoint, of ${signed.size} events, does not have the plant yet; retry`);
  if (event.position > tree.position) throw tooEarly();
  return issueReceipt(event, tree, (index) => {
    const covering = [cosigned, signed].find((one) => one && one.size > index);
    if (covering) return covering;
    throw tooEarly();
  });
}

/** The size in --from: a number, or that of a checkpoint in a file. @throws Error */
async function parseSize(from: string, { config, print }: Context): Promise<number> {
  if (/^\d{1,15}$/.test(from)) return Number(from);
  if (/^\d*$/.test(from)) throw new Error('--from must be a number of events.');
  const note = await readCheckpointFile(from, '--from', 'a number of events');
  return (await openOwnCheckpoint(note, config, print)).size;
}
