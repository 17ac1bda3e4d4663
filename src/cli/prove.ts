import { readToEnd } from '@event-sourced/event-log';
import { createDataDir } from '@event-sourced/event-log/disk';
import {
  consistencyProofFromTiles,
  isSameHead,
  proveConsistency,
  rootFromTiles,
  type Tile,
  type TreeHead,
} from '@event-sourced/transparency-log';
import { assertHasSize, issueReceipt } from '@event-sourced/transparency-log/entries';
import { readCheckpointFile } from '@event-sourced/transparency-log/files';
import { CheckpointSigner, loadExistingLogKey } from '@event-sourced/transparency-log/signer';
import { MerkleTreeView } from '@event-sourced/transparency-log/view';
import { plantStream } from '../plants/stream.ts';
import { openOwnCheckpoint } from './checkpointFile.ts';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = { user?: string; id?: string; size?: string; from?: string; to?: string };

/** What to prove of a log of `size` events, by default of all: that it has a plant, or its first `from` events. */
type Claim = { size?: number | undefined } & ({ stream: string; notFound: string } | { from: number });

/**
 * Prints a proof. Its tree is built from the log, in memory: the saved tree may be behind, damaged or switched off.
 * @throws Error for the operator
 */
export async function proveCommand(options: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  const claim = parseClaim(await withSizes(options, context));
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  createDataDir(config.dataDir);
  const signer = new CheckpointSigner(loadExistingLogKey(config), config.dataDir);
  const cosigned = await signer.cosigned();
  const tree = resources.adopt(MerkleTreeView.open(':memory:'), (view) => view.close());

  const catchUp = async (): Promise<void> => {
    for await (const { events } of readToEnd(log, { after: tree.head.position, signal })) tree.apply(events);
    signal.throwIfAborted();
  };
  const read = (tile: Tile) => tree.readTile(tile);
  const sign = async (head: TreeHead): Promise<string> => {
    const signed = await signer.sign(head, async (from, to) => {
      if (to > tree.head.size) await catchUp(); // meanwhile the service has signed more events
      return to > tree.head.size ? undefined : consistencyProofFromTiles(from, to, read);
    });
    return (cosigned && isSameHead(cosigned, head) ? cosigned : signed).note;
  };

  await catchUp();
  const { size = tree.head.size } = claim;
  assertHasSize(tree.head, size);
  const head = { size, root: await rootFromTiles(size, read) };
  if ('from' in claim) {
    assertHasSize(tree.head, claim.from);
    return write(output, await proveConsistency(claim.from, { head, read, sign }));
  }
  const notFound = new Error(`${claim.notFound} among the first ${size} events`);
  const headWith = (index: number): TreeHead => {
    if (index >= size) throw notFound;
    const isCosigned = cosigned && index < cosigned.size && cosigned.size <= size;
    return isCosigned && claim.size === undefined ? cosigned : head;
  };
  const [event] = await log.readStream(claim.stream, 1);
  if (event?.revision !== 0n) throw notFound;
  const service = { tree: { ready: tree, reached: catchUp }, log, checkpoints: { headWith, sign } };
  await write(output, await issueReceipt(event, service));
}

/** Replaces a checkpoint file in --from by its size. @throws Error */
async function withSizes(options: Options, { config, print }: Context): Promise<Options> {
  const { from = '' } = options;
  if (/^\d*$/.test(from)) return options;
  const note = await readCheckpointFile(from, '--from', 'a number of events');
  return { ...options, from: `${(await openOwnCheckpoint(note, config, print)).size}` };
}

function parseClaim({ user, id, size, from, to }: Options): Claim {
  if (user !== undefined && id !== undefined && from === undefined && to === undefined) {
    parseEventOptions({ user, id });
    return {
      stream: plantStream(user, id),
      notFound: `${JSON.stringify(user)} has no plant ${id}`,
      size: parseSize('--size', size),
    };
  }
  if (from === undefined || user !== undefined || id !== undefined || size !== undefined)
    throw new Error('requires either --user and --id, or --from.');
  const [start = 0, end] = [parseSize('--from', from), parseSize('--to', to)];
  if (start < 1) throw new Error('--from must be at least 1.');
  if (end !== undefined && start > end) throw new Error('--from must not be greater than --to.');
  return { from: start, size: end };
}

function parseSize(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new Error(`${option} must be a number of events.`);
  return Number(text);
}
