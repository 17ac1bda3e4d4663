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
  const text = Buffer.concat(chunks).toString();
  let members = -1; // without the one that holds the whole
  let value: unknown;
  try {
    value = JSON.parse(text, function (_key, part) {
      if (!Array.isArray(this)) members++;
      return part;
    });
  } catch {
    throw new NotProven('not a proof: it is not JSON');
  }
  // JSON.parse keeps the last one, another reader may show the first.
  if (members !== membersIn(text))
    throw new NotProven('not a proof: an object in it has two members with the same name');
  return value;
}

/** The number of members in the text of JSON, with duplicates: each has a colon outside strings. */
function membersIn(text: string): number {
  const withoutStrings = text.replace(/\\./g, '').replace(/"[^"]*"/g, '');
  return withoutStrings.split(':').length - 1;
}
