import { createDataDir } from '@event-sourced/event-log/disk';
import { type Claim, proofFromLog } from '@event-sourced/transparency-log/entries';
import { readCheckpointFile } from '@event-sourced/transparency-log/files';
import { CheckpointSigner, loadExistingLogKey } from '@event-sourced/transparency-log/signer';
import { plantStream } from '../domain.ts';
import { openOwnCheckpoint } from './checkpointFile.ts';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = { user?: string; id?: string; size?: string; from?: string; to?: string };

export async function proveCommand(options: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  const claim = parseClaim(await withSizes(options, context));
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  createDataDir(config.dataDir);
  const signer = new CheckpointSigner(loadExistingLogKey(config), config.dataDir);
  await write(output, await proofFromLog(log, claim, { signer, signal }));
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
    const stream = plantStream(user, id);
    return {
      isEvent: (event) => event.stream === stream && event.revision === 0n,
      notFound: `${JSON.stringify(user)} has no plant ${id}`,
      size: parseSize('--size', size),
    };
  }
  if (from === undefined || user !== undefined || id !== undefined || size !== undefined)
    throw new Error('requires either --user and --id, or --from.');
  const [start = 0, end] = [parseSize('--from', from), parseSize('--to', to)];
  if (start < 1) throw new Error('--from must be at least 1.');
  if (end !== undefined && start > end) throw new Error('--from must not be greater than --to.');
  return { from: start, to: end };
}

function parseSize(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new Error(`${option} must be a number of events.`);
  return Number(text);
}
