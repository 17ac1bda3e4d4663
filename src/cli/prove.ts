import { consistencyProofFromLog, proveConsistency, proveInclusion, type Signing } from '../audit/proof.ts';
import { createDataDir } from '../disk/dataDir.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { CheckpointSigner } from '../transparency/checkpointSigner.ts';
import { formatConsistencyProof } from '../transparency/consistencyProof.ts';
import { formatInclusionProof } from '../transparency/inclusionProof.ts';
import { loadExistingLogKey } from '../transparency/logKey.ts';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = { user?: string; id?: string; size?: string; from?: string; to?: string };

/** Returns the text of a proof. */
type Prove = (log: EventLog, context: Signing) => Promise<string>;

/** Prints a proof, signed by the log: that a plant's event is in it, or that it has only grown. */
export async function proveCommand(options: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  const prove = proofOf(options);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { raw: true });
  createDataDir(config.dataDir);
  const signer = new CheckpointSigner(loadExistingLogKey(config), config.dataDir);
  const sign: Signing['sign'] = (head) =>
    signer.sign(head, (from, to) => consistencyProofFromLog(log, { from, to }, signal));
  await write(output, await prove(log, { sign, signal }));
}

function proofOf({ user, id, size, from, to }: Options): Prove {
  const isInclusion = user !== undefined && id !== undefined && from === undefined && to === undefined;
  const isConsistency = from !== undefined && user === undefined && id === undefined && size === undefined;
  if (isInclusion) {
    parseEventOptions({ user, id });
    const events = parseSize('--size', size);
    return async (log, context) =>
      formatInclusionProof(await proveInclusion(log, { user, id, size: events }, context));
  }
  if (!isConsistency) throw new Error('requires either --user and --id, or --from.');
  const [start = 0, end] = [parseSize('--from', from), parseSize('--to', to)];
  if (start < 1) throw new Error('--from must be at least 1.');
  if (end !== undefined && start > end) throw new Error('--from must not be greater than --to.');
  return async (log, context) =>
    formatConsistencyProof(await proveConsistency(log, { from: start, to: end }, context));
}

function parseSize(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new Error(`${option} must be a number of events.`);
  return Number(text);
}
