import type { TreeHead } from '../merkle/treeHead.ts';
import { formatConsistencyProof } from '../notes/proof.ts';
import { type Cosignature, cosignaturesOf } from './cosignature.ts';
import type { PolicyWitness } from './policy.ts';

/** The consistency proof from the first `from` to the first `to` entries; undefined if there are fewer. */
type ProveConsistency = (from: number, to: number) => Promise<readonly string[] | undefined>;

export type SignedHead = TreeHead & { note: string };

/** A witness has not cosigned. The message says why. */
export class NotCosigned extends Error {
  override readonly name = 'NotCosigned';
}

const TIMEOUT_MS = 10_000;
const MAX_RESPONSE_BYTES = 64 * 1024;
/** Another instance may ask the witness at the same time. */
const MAX_ATTEMPTS = 3;

const REASONS: Record<number, string> = {
  403: 'it has another key for this log',
  404: 'it does not know this log',
  409: 'it is asked by others at the same time',
  422: 'the log contradicts what it has cosigned',
};

/** Asks a witness for cosignatures: `add-checkpoint` of https://c2sp.org/tlog-witness */
export class WitnessClient {
  readonly witness: PolicyWitness;
  /** The size that the witness has cosigned last, as far as is known. */
  #size = 0;

  constructor(witness: PolicyWitness) {
    this.witness = witness;
  }

  /** The witness's cosignature of a checkpoint. @throws NotCosigned, and what `prove` throws */
  async cosign(
    { size, note }: SignedHead,
    prove: ProveConsistency,
    signal: AbortSignal,
  ): Promise<Cosignature> {
    let from = this.#size <= size ? this.#size : 0; // a larger one may have been an error: it is asked again
    for (let attempts = 1; ; attempts++) {
      const path = await prove(from, size);
      if (!path) throw new NotCosigned('the tree is being rebuilt');
      const { status, text } = await this.#post(
        formatConsistencyProof({ from, path, checkpoint: note }),
        signal,
      );
      if (status === 409 && attempts < MAX_ATTEMPTS) {
        from = this.#size = sizeOf(text);
        if (from > size) throw new NotCosigned(`it has cosigned ${from} entries already`);
        continue;
      }
      if (status !== 200) throw new NotCosigned(`${REASONS[status] ?? 'it refuses'} (${status})`);
      const [cosignature] = readCosignatures(`${note}${text}`, this.witness);
      if (!cosignature) throw new NotCosigned('its response does not have its cosignature');
      this.#size = size;
      return cosignature;
    }
  }

  async #post(body: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(`${this.witness.url}/add-checkpoint`, {
        method: 'POST',
        body,
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      return { status: response.status, text: await textOf(response) };
    } catch (error) {
      const { message, cause } = error as Error;
      const code = (cause as NodeJS.ErrnoException | undefined)?.code;
      throw new NotCosigned(`it is unavailable: ${code ?? message}`, { cause: error });
    }
  }
}

async function textOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > MAX_RESPONSE_BYTES) throw new Error('its response is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function sizeOf(text: string): number {
  const size = /^(0|[1-9]\d*)\n$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(size)) throw new NotCosigned('its response has no size');
  return size;
}

function readCosignatures(note: string, { key }: PolicyWitness): Cosignature[] {
  try {
    return cosignaturesOf(note, [key]);
  } catch (error) {
    throw new NotCosigned((error as Error).message, { cause: error });
  }
}
