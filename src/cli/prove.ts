import { type Proof, proveConsistency, proveInclusion } from '../audit/proof.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = { user?: string; id?: string; size?: string; from?: string; to?: string };

type Prove = (log: EventLog, signal: AbortSignal) => Promise<Proof>;

/** Prints a Merkle proof as JSON: that a plant's event is in the log, or that the log has only grown. */
export async function proveCommand(options: Options, context: Context): Promise<void> {
  const prove = proofOf(options);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { exact: true });
  const proof = await prove(log, context.signal);
  await write(context.output, `${JSON.stringify(proof)}\n`);
}

function proofOf({ user, id, size, from, to }: Options): Prove {
  const isInclusion = user !== undefined && id !== undefined && from === undefined && to === undefined;
  const isConsistency = from !== undefined && user === undefined && id === undefined && size === undefined;
  if (isInclusion) {
    parseEventOptions({ user, id });
    const events = parseSize('--size', size);
    return (log, signal) => proveInclusion(log, { user, id, size: events }, signal);
  }
  if (!isConsistency) throw new Error('requires either --user and --id, or --from.');
  const [start = 0, end] = [parseSize('--from', from), parseSize('--to', to)];
  if (start < 1) throw new Error('--from must be at least 1.');
  if (end !== undefined && start > end) throw new Error('--from must not be greater than --to.');
  return (log, signal) => proveConsistency(log, { from: start, to: end }, signal);
}

function parseSize(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new Error(`${option} must be a number of events.`);
  return Number(text);
}
