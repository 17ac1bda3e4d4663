import { addAbortSignal } from 'node:stream';
import { checkProof, NotProven, type Proof, proveConsistency, proveInclusion } from '../audit/proof.ts';
import { filterOfOptions } from './eventOptions.ts';
import { openLogUntil, type Surroundings, write } from './surroundings.ts';

type Options = { user?: string; id?: string; size?: string; from?: string; to?: string };

/** Prints a Merkle proof as JSON: that a plant's event is in the log, or that one state of the log began another. */
export async function proveCommand(options: Options, surroundings: Surroundings): Promise<void> {
  const make = proofOf(options);
  await using open = new AsyncDisposableStack();
  const log = await openLogUntil(open, surroundings, { exact: true });
  const proof = await make(log, surroundings.signal);
  await write(surroundings.output, `${JSON.stringify(proof)}\n`);
}

type MakeProof = (log: Parameters<typeof proveInclusion>[0], signal: AbortSignal) => Promise<Proof>;

function proofOf({ user, id, size, from, to }: Options): MakeProof {
  const isInclusion = user !== undefined && id !== undefined && from === undefined && to === undefined;
  const isConsistency = from !== undefined && user === undefined && id === undefined && size === undefined;
  if (isInclusion) {
    filterOfOptions({ user, id });
    const first = sizeOf('--size', size);
    return (log, signal) => proveInclusion(log, { user, id, size: first }, signal);
  }
  if (!isConsistency) throw new Error('either --user and --id are needed, or --from.');
  const [start = 0, end] = [sizeOf('--from', from), sizeOf('--to', to)];
  if (start < 1) throw new Error('--from must be at least 1.');
  if (end !== undefined && start > end) throw new Error('--from must not be greater than --to.');
  return (log, signal) => proveConsistency(log, { from: start, to: end }, signal);
}

function sizeOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new Error(`${option} must be a number of events.`);
  return Number(text);
}

/** Bytes; the largest event in a proof has 1 MiB. */
const LARGEST = 16 * 1024 * 1024;

/** Reads a proof, and prints what it shows. @throws NotProven */
export async function checkProofCommand({ input, output, signal }: Surroundings): Promise<void> {
  const shown = checkProof(await readJson(addAbortSignal(signal, input)));
  await write(output, `${shown}\n`);
}

async function readJson(input: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > LARGEST) throw new NotProven('this is no proof: it is too large');
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new NotProven('this is no proof: it is not JSON');
  }
}
