import { addAbortSignal } from 'node:stream';
import { checkProof, NotProven } from '../audit/proof.ts';
import { type Context, write } from './context.ts';
import { printable } from './printable.ts';

/** The largest event in a proof has 1 MiB. */
const MAX_PROOF_BYTES = 16 * 1024 * 1024;

/** Reads a proof from standard input, and prints what it proves. @throws NotProven */
export async function checkProofCommand({ input, output, signal }: Context): Promise<void> {
  const result = checkProof(await readJson(addAbortSignal(signal, input)));
  await write(output, `${printable(result)}\n`);
}

async function readJson(input: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_PROOF_BYTES) throw new NotProven('not a proof: it is too large');
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new NotProven('not a proof: it is not JSON');
  }
}
